//! Times as the contract writes them: UTC, microseconds, `Z`.

/// `2026-01-02T03:04:05.678901Z` for nanoseconds since 1970. A u64 reaches the year 2554, so the year always has four
/// digits and the text always parses.
pub fn format_timestamp(nanoseconds: u64) -> String {
    let micros = nanoseconds / 1_000;
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// Nanoseconds since 1970 of a time in the form that [`format_timestamp`] writes, with any number of decimals.
pub fn parse_timestamp(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, decimals) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if !(1970..=2553).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = format!("{decimals:0<9}").get(..9)?.parse::<u64>().ok()?;
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(seconds * 1_000_000_000 + nanoseconds)
}

/// The date of a day since 1970 in the proleptic Gregorian calendar, by counting in eras of 400 years from 1 March 0000.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_microseconds() {
        assert_eq!(format_timestamp(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(format_timestamp(1_767_323_045_678_901_999), "2026-01-02T03:04:05.678901Z");
        assert_eq!(format_timestamp(951_782_400_000_000_000), "2000-02-29T00:00:00.000000Z");
        assert_eq!(format_timestamp(u64::MAX), "2554-07-21T23:34:33.709551Z");
    }

    #[test]
    fn a_written_time_reads_back() {
        for days in 0..200_000 {
            let time = days * 86_400_000_000_000 + days * 1_000;
            assert_eq!(parse_timestamp(&format_timestamp(time)), Some(time));
        }
        assert_eq!(parse_timestamp("2026-13-01T00:00:00Z"), None);
        assert_eq!(parse_timestamp("2026-01-01 00:00:00"), None);
    }
}
