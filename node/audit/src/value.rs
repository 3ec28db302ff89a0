//! What the kernel makes of a text that is written into a sysctl.
//!
//! A number ends at white space, and what follows the last number that a
//! sysctl has is not looked at: `0 #never` is 0, and `0#never` is refused.
//! Names and lists of ports are taken as they stand, comment and all. So the
//! reading of a value depends on the sysctl, and is done here for all of them.
//! Sources: Linux `kernel/sysctl.c` (`proc_get_long`, `do_proc_dointvec`,
//! `do_proc_doulongvec_minmax`, `proc_do_large_bitmap`), and a kernel that was
//! asked (`tests::values`).

mod below;
mod meant;
mod shapes;
mod words;

use crate::text::quoted;
pub(crate) use below::below_zero;
pub use meant::near;
pub(crate) use meant::{key_meant, meant, number_meant};
#[cfg(test)]
pub(crate) use shapes::known;
pub(crate) use shapes::shape;
pub(crate) use words::no_value;

/// What a sysctl takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Integers with white space between them: at most so many, each in these
    /// bounds. Fewer leave the others as they are.
    Integers { most: usize, low: i128, high: i128 },
    /// 0, or an integer from this one on.
    ZeroOr(i128),
    /// Bytes of a pipe: the kernel makes pages and a power of two of them.
    Pipe,
    /// Entries of a table: 0, or a power of two, which another number is
    /// rounded up to where the kernel does that.
    Table { most: i128, is_rounded: bool },
    /// Four integers, of which the last has a bound of its own.
    Semaphores,
    /// Milliseconds that the kernel cuts to 32 bits before it looks at them.
    Milliseconds,
    /// Two ports, the second not below the first, and the first not below this
    /// one.
    Ports(u64),
    /// A list of numbers below the bound, with commas and dashes; or nothing.
    Bitmap(u64),
    /// A list of cores.
    Cores,
    /// A mask of cores: hexadecimal digits, commas between words of eight.
    Mask,
    /// A word that the kernel knows: an algorithm, a queueing discipline.
    Name,
}

/// What becomes of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// The value in force afterwards, as the kernel shows it.
    As(String),
    /// `EINVAL`, or whatever the kernel answers: nothing is set, or no more
    /// than is said.
    Refused(String),
}

/// No digits are looked at beyond these (`TMPBUFLEN` of `kernel/sysctl.c`).
const LONGEST_NUMBER: usize = 20;

/// What a sysctl of this shape makes of a text, which has no white space
/// around it.
pub(crate) fn take(shape: Shape, text: &str) -> Taken {
    match shape {
        Shape::Integers { most, low, high } => integers(text, most, low, high),
        Shape::ZeroOr(low) => match integers(text, 1, 0, i128::from(i32::MAX)) {
            Taken::As(number) if number != "0" && number.parse::<i128>().is_ok_and(|number| number < low) => {
                refused(text, &format!("is neither 0 nor {low} or more"))
            }
            taken => taken,
        },
        Shape::Pipe => match integers(text, 1, 0, i128::from(u64::MAX)) {
            // Cut to 32 bits before it is looked at.
            Taken::As(number) => match number.parse::<u64>().unwrap_or(0) & u64::from(u32::MAX) {
                bytes if bytes <= 1 << 31 => Taken::As(bytes.max(4_096).next_power_of_two().to_string()),
                _ => refused(text, "is more than 2 GiB"),
            },
            refused => refused,
        },
        Shape::Table { most, is_rounded } => match integers(text, 1, 0, most) {
            Taken::As(number) => match number.parse::<u64>().unwrap_or(0) {
                0 if is_rounded => Taken::As(number),
                entries if entries.is_power_of_two() => Taken::As(number),
                entries if is_rounded => Taken::As(entries.next_power_of_two().to_string()),
                _ => refused(text, "is no power of two"),
            },
            refused => refused,
        },
        Shape::Semaphores => {
            // IPCMNI of include/linux/ipc_namespace.h.
            const SETS: i128 = 32_768;
            let taken = integers(text, 4, -i128::from(i32::MAX) - 1, i128::from(i32::MAX));
            let sets = match &taken {
                Taken::As(numbers) => numbers.split(' ').nth(3).and_then(|number| number.parse::<i128>().ok()),
                Taken::Refused(_) => None,
            };
            match sets.is_some_and(|sets| !(0..=SETS).contains(&sets)) {
                true => {
                    refused(text, "has more sets than there may be (32768); the numbers before are set all the same")
                }
                false => taken,
            }
        }
        Shape::Milliseconds => match integers(text, 1, 0, i128::from(u64::MAX)) {
            Taken::As(number) => match number.parse::<u64>().map(|number| number & u64::from(u32::MAX)) {
                Ok(number) if number <= i32::MAX as u64 => Taken::As(number.to_string()),
                _ => refused(text, "is more milliseconds than the kernel counts"),
            },
            refused => refused,
        },
        Shape::Ports(lowest) => ports(text, lowest),
        Shape::Bitmap(bound) => bitmap(text, bound),
        Shape::Cores => match crate::cpu_list(text) {
            Some(_) => Taken::As(text.to_owned()),
            None => refused(text, "is no list of cores"),
        },
        Shape::Mask => match crate::cpu_mask(text) {
            Some(_) => Taken::As(text.to_owned()),
            None => refused(text, "is no mask of cores"),
        },
        Shape::Name => match text.contains(|char: char| char.is_ascii_whitespace()) {
            true => refused(text, "is taken as a name with all that follows it, and there is none of that name"),
            false => Taken::As(text.to_owned()),
        },
    }
}

fn refused(text: &str, why: &str) -> Taken {
    Taken::Refused(format!("{} {why}", quoted(text)))
}

/// White space as the kernel's `isspace` has it, for ASCII.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The number at the beginning of a text, and what is behind it: decimal,
/// hexadecimal behind `0x`, octal behind `0` (`proc_get_long`).
fn number(text: &[u8]) -> Result<(i128, &[u8]), &'static str> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, text),
    };
    let (radix, digits) = match rest {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, rest.get(2..).unwrap_or_default()),
        [b'0', ..] => (8, rest),
        [digit, ..] if digit.is_ascii_digit() => (10, rest),
        _ => return Err("is no number"),
    };
    let count = digits.iter().take_while(|byte| char::from(**byte).is_digit(radix)).count();
    let used = text.len() - digits.len() + count;
    let behind = text.get(used..).unwrap_or_default();
    if used > LONGEST_NUMBER {
        return Err("is longer than any number of the kernel's");
    }
    match behind.first() {
        None | Some(b' ' | b'\t' | b'\n') => {}
        Some(b'#') => return Err("is no number: a comment takes a blank before it"),
        Some(_) => return Err("is no number"),
    }
    let digits = digits.get(..count).and_then(|digits| core::str::from_utf8(digits).ok()).unwrap_or_default();
    let value = u64::from_str_radix(digits, radix).map_err(|_| "is beyond 64 bits")?;
    Ok((if negative { -i128::from(value) } else { i128::from(value) }, behind))
}

fn integers(text: &str, most: usize, low: i128, high: i128) -> Taken {
    let mut rest = text.as_bytes();
    let mut values: Vec<String> = Vec::new();
    while values.len() < most {
        let blank = rest.iter().take_while(|byte| is_space(**byte)).count();
        rest = rest.get(blank..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        let before = || match values.as_slice() {
            [] => String::new(),
            // Numbers are put in their places one by one.
            values => format!("; what stands before it, {}, is set all the same", values.join(" ")),
        };
        let word = || {
            let end = rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len());
            quoted(&String::from_utf8_lossy(rest.get(..end).unwrap_or_default()))
        };
        let negative = rest.first() == Some(&b'-');
        match number(rest) {
            Ok((value, behind)) if (low..=high).contains(&value) && !(negative && is_unsigned(low, high)) => {
                values.push(value.to_string());
                rest = behind;
            }
            Ok(_) => return Taken::Refused(format!("{} is not in {}{}", word(), bounds(low, high), before())),
            Err(why) => return Taken::Refused(format!("{} {why}{}", word(), before())),
        }
    }
    match values.is_empty() {
        true => Taken::Refused("nothing is no number".to_owned()),
        false => Taken::As(values.join(" ")),
    }
}

/// Whether a sign alone is refused, that of -0 too: of bytes and of what has
/// more than 31 bits.
const fn is_unsigned(low: i128, high: i128) -> bool {
    low >= 0 && (high <= 255 || high > i32::MAX as i128)
}

fn bounds(low: i128, high: i128) -> String {
    match low == high {
        true => format!("what it takes: {low} alone"),
        false => format!("{low} to {high}"),
    }
}

fn ports(text: &str, lowest: u64) -> Taken {
    let Taken::As(pair) = integers(text, 2, 1, 65_535) else {
        return match integers(text, 2, 1, 65_535) {
            // The kernel reads the pair apart, and takes both or none.
            Taken::Refused(why) => Taken::Refused(why.split(';').next().unwrap_or_default().to_owned()),
            taken => taken,
        };
    };
    let ports: Vec<u64> = pair.split(' ').filter_map(|port| port.parse().ok()).collect();
    match ports.as_slice() {
        [low, high] if low > high => refused(text, "ends before it begins"),
        [low, ..] if *low < lowest => {
            refused(text, &format!("begins below {lowest} (net.ipv4.ip_unprivileged_port_start)"))
        }
        _ => Taken::As(pair),
    }
}

/// `80,8080-8089`; nothing between the parts but a comma or a line feed
/// (`proc_do_large_bitmap`).
fn bitmap(text: &str, bound: u64) -> Taken {
    let whole = || Taken::As(text.to_owned());
    if text.is_empty() {
        return whole();
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let plain = |text: &str| {
            let (value, behind) = number(text.as_bytes()).ok()?;
            (behind.is_empty() && !text.starts_with('-') && value < i128::from(bound)).then_some(value)
        };
        match (plain(first), plain(last)) {
            (Some(first), Some(last)) if first <= last => {}
            // A comma may stand at the end.
            _ if part.is_empty() && text.ends_with(',') && text.len() > 1 => {}
            _ => return refused(part, "is no number or range below the bound; a list takes no blank and no comment"),
        }
    }
    whole()
}
