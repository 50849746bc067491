//! Times and sizes as people write them, on the command line, in the environment and in files.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A time: `500ms`, `2s`, `10m`, `1h`, or seconds alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub Duration);

/// A number of bytes: `64MiB`, `512KiB`, `2GiB`, or bytes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub usize);

/// What a unit is worth, in milliseconds; what stands alone counts as the first.
const TIMES: [(&str, u64); 4] = [("s", 1_000), ("ms", 1), ("m", 60_000), ("h", 3_600_000)];
/// In bytes; what stands alone counts as the first.
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = read(text, &TIMES).map(|milliseconds| Time(Duration::from_millis(milliseconds)));
        read.ok_or_else(|| format!("{text:?} is no time; write 500ms, 2s, 10m or 1h"))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = read(text, &SIZES).and_then(|bytes| usize::try_from(bytes).ok()).map(Size);
        read.ok_or_else(|| format!("{text:?} is no size; write 64MiB, 512KiB or 2GiB"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &TIMES)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0 as u64, &SIZES)
    }
}

fn read(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let number_end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let worth = match unit.trim() {
        "" => units.first()?.1,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(worth)
}

/// In the biggest unit of which it is a whole number.
fn write(f: &mut fmt::Formatter<'_>, number: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fitting =
        units.iter().filter(|(_, worth)| number > 0 && number.is_multiple_of(*worth)).max_by_key(|(_, worth)| worth);
    match fitting.or(units.first()) {
        Some((unit, worth)) => write!(f, "{}{unit}", number / worth),
        None => write!(f, "{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_as_people_write_them() {
        for (text, milliseconds) in [("500ms", 500), ("2s", 2_000), ("10m", 600_000), ("1h", 3_600_000), ("0s", 0)] {
            let time = Time(Duration::from_millis(milliseconds));
            assert_eq!(text.parse(), Ok(time));
            assert_eq!(time.to_string(), text);
        }
        assert_eq!("3".parse(), Ok(Time(Duration::from_secs(3))));
        assert_eq!("90 s".parse::<Time>().map(|time| time.to_string()), Ok("90s".to_owned()));
        for wrong in ["", "s", "2 weeks", "-1s", "99999999999999999999h", "9999999999999999999h"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_as_people_write_them() {
        for (text, bytes) in [("64MiB", 64 << 20), ("512KiB", 512 << 10), ("2GiB", 2 << 30), ("1000B", 1_000)] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!("1024".parse(), Ok(Size(1_024)));
        for wrong in ["", "MiB", "64 megabytes", "64mib", "-1", "18446744073709551615GiB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong:?}");
        }
    }
}
