//! `expires`: until when answers are good.

use crate::FeatureSettings;
use crate::key::{KeyPlace, KeyValue, key};
use crate::row::{DirectiveRow, Refusal, Words};
use crate::rule::{Arguments, Context, ValueForm};
use crate::units::time;
use crate::value::Value;
use crate::view::Values;
use crate::{Explaining, Feature};
use semantics::date::HttpDate;
use std::sync::Arc;

/// See the module.
pub(crate) const FEATURE: Feature = Feature {
    directives: &[DirectiveRow::new("headers", "expires", ValueForm::OwnOnce, set)
        .within(Context::PLACES_AND_IF)
        .taking(Arguments::between(1, 2))
        .shown(
            "is 1h
             is -1
             is max
             is off
             is modified 1d
             is $arg_e
             ask GET text.txt?e=epoch
             seen cache-control",
        )],
    keys: &[key(
        "expires",
        KeyPlace::ALL,
        KeyValue::Text,
        "Until when answers are good: a time (30d), epoch, max, or off",
    )
    .is("expires")],
    explain: Some(explain),
    ..Feature::NONE
};

/// Until when answers are good.
#[derive(Clone, Debug)]
pub enum Expires {
    /// Nothing is said of it.
    Off,
    /// What a value says, in the words of the directive.
    Value(Value),
    /// The same; a time is after the file was modified.
    ModifiedValue(Value),
    /// 1 January 1970, `no-cache`.
    Epoch,
    /// 31 December 2037, ten years.
    Max,
    /// So many seconds after now; before it if negative.
    Access(i64),
    /// So many seconds after the file was modified.
    Modified(i64),
    /// At this second of the day, local time.
    Daily(u32),
}

fn set(settings: &mut FeatureSettings, words: &mut Words<'_>) -> Result<(), Refusal> {
    let modified = words.word(0) == b"modified" && words.words.len() == 2;
    if words.words.len() == 2 && !modified {
        return Err(Refusal::OfDirective("invalid value"));
    }
    let at = usize::from(modified);
    let expires = if words.word(at).contains(&b'$') {
        let value = words.value(at)?;
        if modified { Expires::ModifiedValue(value) } else { Expires::Value(value) }
    } else {
        read(words.word(at), modified).map_err(Refusal::OfDirective)?
    };
    settings.expires = Some(expires).filter(|expires| !matches!(expires, Expires::Off)).map(Arc::new);
    Ok(())
}

fn explain(settings: &FeatureSettings, explaining: &mut dyn Explaining) {
    if let Some(Expires::Value(value)) = settings.expires.as_deref() {
        explaining.value(value, true);
    }
}

/// Reads a word: `off`, `epoch`, `max`, or a time, perhaps with `-`, `+` or `@` before it;
/// one after a file was `modified` is a time alone.
fn read(text: &[u8], modified: bool) -> Result<Expires, &'static str> {
    const DAY: i64 = 24 * 60 * 60;
    match text {
        b"epoch" if !modified => return Ok(Expires::Epoch),
        b"max" if !modified => return Ok(Expires::Max),
        b"off" if !modified => return Ok(Expires::Off),
        _ => {}
    }
    let (sign, rest) = match text {
        [sign @ (b'@' | b'+' | b'-'), rest @ ..] => (*sign, rest),
        _ => (b'+', text),
    };
    if sign == b'@' && modified {
        return Err("daily time cannot be used with \"modified\" parameter");
    }
    let seconds = time(rest, true).map_err(|_| "invalid value")? / 1000;
    let seconds = i64::try_from(seconds).map_err(|_| "invalid value")?;
    Ok(match sign {
        b'@' if seconds > DAY => return Err("daily time value must be less than 24 hours"),
        b'@' => Expires::Daily(seconds as u32),
        _ => {
            let seconds = if sign == b'-' { -seconds } else { seconds };
            if modified { Expires::Modified(seconds) } else { Expires::Access(seconds) }
        }
    })
}

/// What a value says: the words of the directive in one text; behind its `modified` a time
/// alone.
fn said(text: &[u8], modified: bool) -> Option<Expires> {
    match text.strip_prefix(b"modified").filter(|_| !modified) {
        Some(rest) => read(rest.trim_ascii_start(), true).ok(),
        None => read(text, modified).ok(),
    }
}

/// What of an answer decides until when it is good.
#[derive(Clone, Copy, Debug)]
pub struct AnswerAge {
    /// When its content was modified, in seconds since 1970, if that is known.
    pub modified: Option<u64>,
    /// Now, likewise.
    pub now: u64,
    /// The machine's time before that of Greenwich, in seconds.
    pub offset: i32,
}

/// Until when an answer is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// `Expires`.
    pub at: HttpDate,
    /// `Cache-Control`.
    pub cache_control: String,
    /// What becomes of both as time passes.
    pub ages: Ages,
}

/// What becomes of an answer's fields as time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ages {
    /// They stay.
    Never,
    /// `Expires` is so many seconds after the date.
    With(i64),
    /// They are others in each second.
    EachSecond,
}

impl Expires {
    /// Until when an answer is good; nothing is said where a value says nothing.
    pub fn of(&self, answer: AnswerAge, values: &mut dyn Values) -> Option<Expiry> {
        let said = match self {
            Self::Value(value) => said(&values.value(value), false)?,
            Self::ModifiedValue(value) => said(&values.value(value), true)?,
            known => return known.known(answer),
        };
        said.known(answer)
    }

    fn known(&self, answer: AnswerAge) -> Option<Expiry> {
        let now = answer.now as i64;
        let dated = |at: i64| HttpDate::from_unix(u64::try_from(at).unwrap_or(0));
        let fixed = |at: i64, control: &str| {
            Some(Expiry { at: dated(at), cache_control: control.to_owned(), ages: Ages::Never })
        };
        let (at, age, negative, ages) = match (self, answer.modified) {
            (Self::Off | Self::Value(_) | Self::ModifiedValue(_), _) => return None,
            (Self::Epoch, _) => return fixed(1, "no-cache"),
            (Self::Max, _) => return fixed(2_145_916_555, "max-age=315360000"),
            (Self::Access(after), _) | (Self::Modified(after @ 0), _) | (Self::Modified(after), None) => {
                (now + after, *after, *after < 0, Ages::With(*after))
            }
            (Self::Modified(after), Some(modified)) => {
                let at = modified as i64 + after;
                (at, at - now, *after < 0, Ages::EachSecond)
            }
            (Self::Daily(second), _) => {
                let there = now + i64::from(answer.offset);
                let today = now - there.rem_euclid(86_400) + i64::from(*second);
                let at = if today > now { today } else { today + 86_400 };
                (at, at - now, false, Ages::EachSecond)
            }
        };
        let cache_control = if negative || age < 0 { "no-cache".to_owned() } else { format!("max-age={age}") };
        Some(Expiry { at: dated(at), cache_control, ages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_behind_modified_is_a_time() {
        let read = |text: &str| format!("{:?}", said(text.as_bytes(), true));
        for (text, expected) in [
            ("1h", "Some(Modified(3600))"),
            ("-1", "Some(Modified(-1))"),
            ("epoch", "None"),
            ("off", "None"),
            ("@1h", "None"),
            ("modified 1h", "None"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn times_are_read() {
        let read = |text: &str| format!("{:?}", said(text.as_bytes(), false));
        for (text, expected) in [
            ("1h", "Some(Access(3600))"),
            ("-1", "Some(Access(-1))"),
            ("+24h", "Some(Access(86400))"),
            ("modified +24h", "Some(Modified(86400))"),
            ("@15h30m", "Some(Daily(55800))"),
            ("max", "Some(Max)"),
            ("epoch", "Some(Epoch)"),
            ("off", "Some(Off)"),
            ("", "None"),
            ("never", "None"),
            ("@25h", "None"),
            ("modified epoch", "None"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn fields_follow_the_rule_and_the_age_of_content() {
        let age = |modified| AnswerAge { modified, now: 1_000_000, offset: 3_600 };
        for (text, modified, at, control, ages) in [
            ("1h", Some(5), 1_003_600, "max-age=3600", Ages::With(3_600)),
            ("0", Some(5), 1_000_000, "max-age=0", Ages::With(0)),
            ("-1", None, 999_999, "no-cache", Ages::With(-1)),
            ("epoch", None, 1, "no-cache", Ages::Never),
            ("max", None, 2_145_916_555, "max-age=315360000", Ages::Never),
            ("modified 1h", Some(999_000), 1_002_600, "max-age=2600", Ages::EachSecond),
            ("modified 1h", Some(5), 3_605, "no-cache", Ages::EachSecond),
            ("modified 1h", None, 1_003_600, "max-age=3600", Ages::With(3_600)),
            // 13:46:40 in Greenwich, an hour later there.
            ("@15h", None, 1_000_800, "max-age=800", Ages::EachSecond),
            ("@14h", None, 1_083_600, "max-age=83600", Ages::EachSecond),
        ] {
            let found = said(text.as_bytes(), false).and_then(|said| said.known(age(modified)));
            let wanted = Expiry { at: HttpDate::from_unix(at), cache_control: control.to_owned(), ages };
            assert_eq!(found, Some(wanted), "{text} {modified:?}");
        }
        assert_eq!(Expires::Off.known(age(None)), None);
    }
}
