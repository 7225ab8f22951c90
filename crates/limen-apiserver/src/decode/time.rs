//! Times, read with the rules and messages of Go's `time.Parse`, and written in UTC.

use jiff::Timestamp;
use jiff::civil::date;

/// How exact a time is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Seconds,
    Microseconds,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// The time in UTC, as the server writes it.
pub(crate) fn normalized(text: &str, precision: Precision) -> Result<String, String> {
    let parsed = Parse { text, rest: text, precision }.run()?;
    Ok(match precision {
        Precision::Seconds => parsed.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Precision::Microseconds => parsed.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    })
}

struct Parse<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Parse<'_> {
    fn run(mut self) -> Result<Timestamp, String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.digits(2, "01")?;
        self.in_range((1..=12).contains(&month), "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        // Go's layout takes an hour of one digit.
        let one_digit = !self.rest.get(1..2).is_some_and(|c| c.as_bytes()[0].is_ascii_digit());
        let hour = self.digits(if one_digit { 1 } else { 2 }, "15")?;
        self.in_range(hour < 24, "hour")?;
        self.literal(":")?;
        let minute = self.digits(2, "04")?;
        self.in_range(minute < 60, "minute")?;
        self.literal(":")?;
        let second = self.digits(2, "05")?;
        self.in_range(second < 60, "second")?;
        let nanosecond = self.fraction()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(self.plain(&format!("extra text: {:?}", self.rest)));
        }
        let narrow = |number: i32| i8::try_from(number).unwrap_or(i8::MAX);
        let day_of_month = i16::try_from(year).ok().and_then(|year| {
            let first = jiff::civil::Date::new(year, narrow(month), 1).ok()?;
            (1..=i32::from(first.days_in_month())).contains(&day).then_some(first)
        });
        let Some(first) = day_of_month else { return Err(self.plain("day out of range")) };
        let civil = date(first.year(), first.month(), narrow(day)).at(
            narrow(hour),
            narrow(minute),
            narrow(second),
            nanosecond,
        );
        let utc = civil.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp());
        let shifted = utc.and_then(|utc| utc.checked_sub(jiff::SignedDuration::from_secs(offset)));
        shifted.map_err(|_| self.plain("year out of range"))
    }

    fn plain(&self, problem: &str) -> String {
        format!("parsing time {:?}: {problem}", self.text)
    }

    fn cannot(&self, element: &str) -> String {
        let layout = self.precision.layout();
        format!(
            "parsing time {:?} as {layout:?}: cannot parse {:?} as {element:?}",
            self.text, self.rest
        )
    }

    fn in_range(&self, holds: bool, what: &str) -> Result<(), String> {
        if holds { Ok(()) } else { Err(self.plain(&format!("{what} out of range"))) }
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i32, String> {
        let digits = self.rest.get(..count).filter(|d| d.bytes().all(|c| c.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        let number = number.ok_or_else(|| self.cannot(element))?;
        self.rest = &self.rest[count..];
        Ok(number)
    }

    fn literal(&mut self, expected: &str) -> Result<(), String> {
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot(expected)),
        }
    }

    /// The nanoseconds. Where the layout has no fraction, any number of digits may be there.
    fn fraction(&mut self) -> Result<i32, String> {
        let starts = self.rest.starts_with(['.', ',']);
        let digits = self.rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        let digits = match self.precision {
            Precision::Seconds if !starts || digits == 0 => return Ok(0),
            Precision::Seconds => digits,
            Precision::Microseconds if starts && digits >= 6 => 6,
            Precision::Microseconds => return Err(self.cannot(".000000")),
        };
        let fraction = &self.rest[1..=digits];
        self.rest = &self.rest[1 + digits..];
        let nanoseconds: String = format!("{fraction:0<9}").chars().take(9).collect();
        Ok(nanoseconds.parse().unwrap_or_default())
    }

    /// The seconds that the zone is ahead of UTC.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let number = |at: usize| {
            let digits = self.rest.get(at..at + 2)?;
            let all = digits.bytes().all(|c| c.is_ascii_digit());
            all.then(|| digits.parse::<i64>().ok()).flatten()
        };
        let sign = match bytes.first() {
            Some(b'+') => Some(1),
            Some(b'-') => Some(-1),
            _ => None,
        };
        let (Some(sign), Some(hours), Some(b':'), Some(minutes)) =
            (sign, number(1), bytes.get(3), number(4))
        else {
            return Err(self.cannot("Z07:00"));
        };
        self.in_range(hours <= 24, "time zone offset hour")?;
        self.in_range(minutes <= 60, "time zone offset minute")?;
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 60 + minutes) * 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let cases = [
            ("2024-01-02T03:04:05Z", Precision::Seconds, "2024-01-02T03:04:05Z"),
            ("2024-01-02T03:04:05.987Z", Precision::Seconds, "2024-01-02T03:04:05Z"),
            ("2024-01-02T03:04:05+02:00", Precision::Seconds, "2024-01-02T01:04:05Z"),
            ("2024-02-29T23:30:00-01:00", Precision::Seconds, "2024-03-01T00:30:00Z"),
            ("2024-01-02T03:04:05.000001Z", Precision::Microseconds, "2024-01-02T03:04:05.000001Z"),
        ];
        for (text, precision, expected) in cases {
            assert_eq!(normalized(text, precision).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn errors_read_as_in_go() {
        let seconds = "as \"2006-01-02T15:04:05Z07:00\": cannot parse";
        let cases = [
            ("yesterday", format!("{seconds} \"yesterday\" as \"2006\"")),
            ("", format!("{seconds} \"\" as \"2006\"")),
            ("2024-01-02", format!("{seconds} \"\" as \"T\"")),
            ("2024-01-02 03:04:05Z", format!("{seconds} \" 03:04:05Z\" as \"T\"")),
            ("2024-01-02T03:04:05", format!("{seconds} \"\" as \"Z07:00\"")),
            ("2024-é1-02T03:04:05Z", format!("{seconds} \"é1-02T03:04:05Z\" as \"01\"")),
        ];
        for (text, error) in cases {
            let error = format!("parsing time {text:?} {error}");
            assert_eq!(normalized(text, Precision::Seconds), Err(error));
        }
        let cases = [
            ("2024-13-01T00:00:00Z", "month out of range"),
            ("2023-02-29T00:00:00Z", "day out of range"),
            ("2024-01-01T24:00:00Z", "hour out of range"),
            ("2024-01-01T00:00:00Zx", "extra text: \"x\""),
        ];
        for (text, problem) in cases {
            let error = format!("parsing time {text:?}: {problem}");
            assert_eq!(normalized(text, Precision::Seconds), Err(error));
        }
        assert_eq!(
            normalized("2024-01-01T01:02:03.1234567+02:00", Precision::Microseconds).unwrap_err(),
            "parsing time \"2024-01-01T01:02:03.1234567+02:00\" as \
             \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"7+02:00\" as \"Z07:00\""
        );
    }
}
