//! Bytes in text: hex, base64, and JSON's half characters.

/// The `N` bytes of an id: hex in any case as OTLP/JSON wants it, or base64 as plain protobuf JSON has it. Their
/// lengths tell them apart; so base64 must be padded, for 22 digits could also be 11 bytes in hex.
pub(super) fn id<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() == 2 * N {
        hex(text)
    } else if text.len() == N.div_ceil(3) * 4 {
        base64(text)?.try_into().ok()
    } else {
        None
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        for digit in digits {
            *byte = *byte << 4 | char::from(*digit).to_digit(16)? as u8;
        }
    }
    Some(bytes)
}

/// Base64 with either alphabet, padded or not.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for digit in group {
            bits = bits << 6 | base64_digit(*digit)?;
        }
        // Two to four digits hold one to three bytes; what is left below them is padding.
        let missing = 4 - group.len();
        let [_, whole @ ..] = (bits << (6 * missing)).to_be_bytes();
        bytes.extend(whole.iter().take(match missing {
            0..=2 => 3 - missing,
            _ => return None,
        }));
    }
    Some(bytes)
}

fn base64_digit(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

/// JSON with every escaped half of a surrogate pair (`\ud83d` alone: text that was cut in the middle of an emoji)
/// replaced by U+FFFD; `None` if there is no such half.
pub(super) fn repair_surrogates(json: &str) -> Option<String> {
    let mut repaired = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest.as_bytes())) {
        at += found;
        at += match (escaped_unit(json, at), escaped_unit(json, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                repaired.push_str(json.get(copied..at)?);
                repaired.push_str("\\ufffd");
                copied = at + 6;
                6
            }
            _ if json.get(at..).is_some_and(|rest| rest.starts_with("\\\\")) => 2,
            _ => 1,
        };
    }
    (copied > 0).then(|| repaired + json.get(copied..).unwrap_or_default())
}

/// The UTF-16 unit that is written as `\uXXXX` at a place.
fn escaped_unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at.checked_add(6)?)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_either_alphabet_and_with_or_without_padding() {
        for (text, bytes) in [("", &b""[..]), ("Zg==", b"f"), ("Zg", b"f"), ("Zm8=", b"fo"), ("Zm9v", b"foo")] {
            assert_eq!(base64(text).as_deref(), Some(bytes));
        }
        assert_eq!(base64("-_-_"), base64("+/+/"));
        for wrong in ["A", "AAAAA", "A A=", "ä", "=A"] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_id_is_hex_in_any_case_or_base64() {
        let bytes = Some([0xab, 0xcd, 0xef, 1, 2, 3, 4, 5]);
        for text in ["abcdef0102030405", "ABCDEF0102030405", "q83vAQIDBAU="] {
            assert_eq!(id::<8>(text), bytes, "{text}");
        }
        for wrong in [
            "",
            "abcdef01020304",
            "abcdef01020304055",
            "xbcdef0102030405",
            "+bcdef0102030405",
            "q83vAQIDBAU",
            "äääääääää",
        ] {
            assert_eq!(id::<8>(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn halves_of_surrogate_pairs_are_replaced_and_nothing_else() {
        for (json, repaired) in [
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (r#""a\udc00b\uD83Dc""#, Some(r#""a\ufffdb\ufffdc""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\u12"#, None),
            (r#""\"#, None),
            ("\"\\ä\\ud83d\"", Some("\"\\ä\\ufffd\"")),
        ] {
            assert_eq!(repair_surrogates(json).as_deref(), repaired, "{json}");
        }
    }
}
