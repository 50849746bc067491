//! Compressed bytes, and bombs.

use std::io::Write as _;

use opentelemetry_failproof::otlp::decompress::{DecompressError, Encoding, decompress};

use super::support::*;

#[test]
fn files_are_unpacked_wherever_they_are_compressed() {
    let bytes = request(SMALLEST).encode_to_vec();
    let spans = read_protobuf(&bytes).spans;
    let lines = format!("{SMALLEST}\n{SMALLEST}");
    let two = [spans.clone(), spans.clone()].concat();
    for (file, spans) in [
        (gzip(&bytes), &spans),
        (zstd(&bytes), &spans),
        (gzip(SMALLEST.as_bytes()), &spans),
        (zstd(lines.as_bytes()), &two),
        (gzip(&zstd(&bytes)), &spans),
        (gzip(&framed(&[&bytes, &bytes])), &two),
        (framed(&[&zstd(&bytes), &zstd(SMALLEST.as_bytes())]), &two),
        (gzip(&framed(&[&zstd(&bytes)])), &spans),
    ] {
        assert_eq!(read_file(&file), good(spans));
    }
    let thrice = read_file(&gzip(&gzip(&gzip(&bytes))));
    assert!(thrice.problems[0].cause.contains("more than twice"));
    let cut = read_file(&gzip(&bytes)[..50]);
    assert!(cut.problems[0].cause.contains("no whole gzip"), "{:?}", cut.problems);
}

#[test]
fn many_members_and_frames_are_one_content_and_counted_together() {
    for (encoding, pack) in [(Encoding::Gzip, gzip as fn(&[u8]) -> Vec<u8>), (Encoding::Zstd, zstd)] {
        let packed = [pack(&[1; 600]), pack(&[2; 600])].concat();
        assert_eq!(Encoding::sniff(&packed), Some(encoding));
        assert_eq!(decompress(&packed, encoding, 1_200).unwrap(), [[1; 600], [2; 600]].concat());
        assert_eq!(decompress(&packed, encoding, 1_201).unwrap().len(), 1_200);
        assert_eq!(decompress(&packed, encoding, 1_199), Err(DecompressError::TooLarge { cap: 1_199 }));
    }
}

#[test]
fn a_bomb_stops_at_the_cap() {
    let bomb = vec![0; 65 << 20];
    for (encoding, packed) in [(Encoding::Gzip, gzip(&bomb)), (Encoding::Zstd, zstd(&bomb))] {
        assert!(packed.len() < 1 << 17);
        assert_eq!(decompress(&packed, encoding, 64 << 20), Err(DecompressError::TooLarge { cap: 64 << 20 }));
        let whole = decompress(&packed, encoding, bomb.len()).unwrap();
        assert!(whole.capacity() <= bomb.len() + 1, "no more memory than the cap");
    }
}

#[test]
fn a_large_zstd_window_is_refused() {
    for (log, expected) in [(23, Ok(())), (24, Err(DecompressError::WindowTooLarge))] {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(&[7; 100]).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(decompress(&packed, Encoding::Zstd, 1_000).map(drop), expected);
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let text = SMALLEST.as_bytes();
    let mut random = Random(11);
    for (encoding, packed) in [(Encoding::Gzip, gzip(text)), (Encoding::Zstd, zstd(text))] {
        for end in 1..packed.len() {
            assert!(decompress(&packed[..end], encoding, 1 << 20).is_err(), "{end}");
        }
        for _ in 0..2_000 {
            let mut damaged = packed.clone();
            let at = random.below(damaged.len());
            damaged[at] ^= 1 << random.below(8);
            let _ = decompress(&damaged, encoding, 1 << 20);
        }
        let error = decompress(b"plain text, not packed at all", encoding, 1 << 20).unwrap_err();
        assert!(matches!(error, DecompressError::Corrupt { .. }));
    }
}

#[test]
fn encodings_are_known_by_name() {
    assert_eq!(Encoding::from_name("GZIP"), Some(Encoding::Gzip));
    assert_eq!(Encoding::from_name("zstd"), Some(Encoding::Zstd));
    assert_eq!(Encoding::from_name("br"), None);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}
