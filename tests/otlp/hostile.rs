//! Damaged bytes.

use super::support::*;

#[test]
fn every_prefix_of_a_request_is_read_or_refused_without_harm() {
    let bytes = request(SMALLEST).encode_to_vec();
    for end in 0..bytes.len() {
        let _ = protobuf::read(&bytes[..end], &Budget::REQUEST);
        let _ = read_file(&bytes[..end]);
    }
    for end in 0..SMALLEST.len() {
        assert!(json::read(&SMALLEST.as_bytes()[..end], &Budget::REQUEST).is_err());
        let _ = read_file(&SMALLEST.as_bytes()[..end]);
    }
}

#[test]
fn random_damage_never_harms() {
    let bytes = request(RECORDINGS[2]).encode_to_vec();
    let json = RECORDINGS[3].as_bytes().to_vec();
    let mut random = Random(7);
    for _ in 0..2_000 {
        for original in [&bytes, &json] {
            let mut damaged = original.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(damaged.len());
                damaged[at] ^= 1 << random.below(8);
            }
            let _ = protobuf::read(&damaged, &Budget::REQUEST);
            let _ = json::read(&damaged, &Budget::REQUEST);
            let _ = read_file(&damaged);
        }
    }
}
