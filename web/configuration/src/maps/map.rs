//! `map`: a value for each of many texts.

use super::text;
use core::hash::{BuildHasherDefault, Hasher};
use features::Compiling;
use features::Value;
use std::collections::HashMap;

/// Places in the values by keys. Who asks can choose what is looked for, but not
/// what is there: a hash that is known cannot be made slow.
type Keys = HashMap<Box<[u8]>, u32, BuildHasherDefault<KeyHasher>>;

/// Keys up to this long are made small on the stack.
const SHORT: usize = 256;

/// A `map`.
#[derive(Debug)]
pub struct Map {
    /// What is looked for.
    pub source: Value,
    /// Its value is looked for each time that it is asked for (`volatile`).
    pub volatile: bool,
    /// A dot at the end of what is looked for does not count (`hostnames`).
    hostnames: bool,
    values: Vec<Value>,
    default: Value,
    /// By keys in lower case: places in `values`.
    whole: Keys,
    /// What stands behind `*.`.
    starts: Keys,
    /// What stands before `.*`.
    ends: Keys,
    /// The longest key of `whole`.
    longest: usize,
    /// Expressions, in the order in which they are tried.
    expressions: Vec<(u32, u32)>,
}

impl Map {
    /// The value for `key`: of the key that is the same but for case; with
    /// `hostnames`, of the longest wildcard; of the first expression that
    /// `matches`; the default. A value may name groups of the expression that
    /// matched.
    pub fn find(&self, key: &[u8], matches: &mut dyn FnMut(u32, &[u8]) -> bool) -> &Value {
        let key = if self.hostnames { key.strip_suffix(b".").unwrap_or(key) } else { key };
        if let Some(place) = self.by_key(key) {
            return &self.values[place as usize];
        }
        let found = self.expressions.iter().find(|(number, _)| !key.is_empty() && matches(*number, key));
        found.map_or(&self.default, |(_, place)| &self.values[*place as usize])
    }

    /// Each value that it may have.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.values.iter().chain(core::iter::once(&self.default))
    }

    fn by_key(&self, key: &[u8]) -> Option<u32> {
        let wildcards = !self.starts.is_empty() || !self.ends.is_empty();
        if key.len() > self.longest && !wildcards {
            return None;
        }
        if !key.iter().any(u8::is_ascii_uppercase) {
            return self.by_lower(key, wildcards);
        }
        let mut short = [0; SHORT];
        match short.get_mut(..key.len()) {
            Some(lower) => {
                lower.copy_from_slice(key);
                lower.make_ascii_lowercase();
                self.by_lower(lower, wildcards)
            }
            None => self.by_lower(&key.to_ascii_lowercase(), wildcards),
        }
    }

    fn by_lower(&self, key: &[u8], wildcards: bool) -> Option<u32> {
        let whole = self.whole.get(key);
        if whole.is_some() || !wildcards {
            return whole.copied();
        }
        let dots = || key.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let behind = dots().find_map(|at| self.starts.get(&key[at + 1..]));
        behind.or_else(|| dots().rev().find_map(|at| self.ends.get(&key[..at]))).copied()
    }
}

/// A hash of some bytes: eight at a time, by a folded multiplication each.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl KeyHasher {
    const fn add(&mut self, word: u64) {
        let product = (self.0 ^ word) as u128 * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        // Where there is a word, its last bytes are looked at again.
        let last = bytes.last_chunk::<8>().map(|word| u64::from_le_bytes(*word));
        let short = || rest.iter().fold(1, |word, byte| word << 8 | u64::from(*byte));
        if !rest.is_empty() {
            self.add(last.unwrap_or_else(short));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64 ^ 0xa076_1d64_78bd_642f);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A `map` whose lines are read.
#[derive(Debug)]
pub struct MapBuilder {
    map: Map,
    default: bool,
    /// Values by their text: the same text is the same value.
    known: HashMap<Box<[u8]>, u32>,
}

impl MapBuilder {
    /// A map without lines: everything is nothing.
    #[must_use]
    pub fn new(source: Value) -> Self {
        let map = Map {
            source,
            volatile: false,
            hostnames: false,
            values: Vec::new(),
            default: Value::default(),
            whole: Keys::default(),
            starts: Keys::default(),
            ends: Keys::default(),
            longest: 0,
            expressions: Vec::new(),
        };
        Self { map, default: false, known: HashMap::new() }
    }

    /// Adds a line of the block.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn add(&mut self, words: &[&[u8]], compiling: &mut dyn Compiling) -> Result<(), String> {
        let (key, value) = match *words {
            [b"hostnames"] => {
                self.map.hostnames = true;
                return Ok(());
            }
            [b"volatile"] => {
                self.map.volatile = true;
                return Ok(());
            }
            [key, value] => (key, value),
            _ => return Err("invalid number of the map parameters".into()),
        };
        let place = self.value(value, compiling)?;
        match key {
            b"default" if self.default => return Err("duplicate default map parameter".into()),
            b"default" => {
                self.default = true;
                self.map.default = self.map.values[place as usize].clone();
            }
            [b'~', b'*', pattern @ ..] => self.map.expressions.push((compiling.expression(pattern, true)?, place)),
            [b'~', pattern @ ..] => self.map.expressions.push((compiling.expression(pattern, false)?, place)),
            _ => self.key(key.strip_prefix(b"\\").unwrap_or(key), place)?,
        }
        Ok(())
    }

    /// The map.
    #[must_use]
    pub fn finish(self) -> Map {
        self.map
    }

    fn value(&mut self, value: &[u8], compiling: &mut dyn Compiling) -> Result<u32, String> {
        if let Some(place) = self.known.get(value) {
            return Ok(*place);
        }
        let place = u32::try_from(self.map.values.len()).map_err(|_| "too many values")?;
        self.map.values.push(compiling.value(value)?);
        self.known.insert(value.into(), place);
        Ok(place)
    }

    fn key(&mut self, key: &[u8], place: u32) -> Result<(), String> {
        let Map { hostnames, whole, starts, ends, longest, .. } = &mut self.map;
        // nginx names it as it keeps it.
        let lower: Box<[u8]> = key.to_ascii_lowercase().into();
        let wildcard = if *hostnames { Wildcard::of(key)? } else { Wildcard::None };
        let conflict = || format!("conflicting parameter \"{}\"", text(&lower));
        let (added, part) = match wildcard {
            Wildcard::None => {
                *longest = lower.len().max(*longest);
                (whole.insert(lower.clone(), place), None)
            }
            // With and without a label before it.
            Wildcard::Both => {
                *longest = lower.len().max(*longest);
                (starts.insert(lower[1..].into(), place), Some(&lower[1..]))
            }
            Wildcard::Start => (starts.insert(lower[2..].into(), place), None),
            Wildcard::End => (ends.insert(lower[..lower.len() - 2].into(), place), None),
        };
        let also = part.and_then(|part| whole.insert(part.into(), place));
        if added.or(also).is_some() { Err(conflict()) } else { Ok(()) }
    }
}

/// What of a name may be anything.
enum Wildcard {
    None,
    /// `.example.org`
    Both,
    /// `*.example.org`
    Start,
    /// `mail.*`
    End,
}

impl Wildcard {
    fn of(key: &[u8]) -> Result<Self, String> {
        let stars = key.iter().filter(|byte| **byte == b'*').count();
        let invalid = stars > 1 || key.contains(&0) || key.windows(2).any(|two| two == b"..");
        match key {
            _ if invalid => {}
            [b'.', _, ..] => return Ok(Self::Both),
            [b'*', b'.', _, ..] => return Ok(Self::Start),
            [_, .., b'.', b'*'] => return Ok(Self::End),
            _ if stars == 0 => return Ok(Self::None),
            _ => {}
        }
        Err(format!("invalid hostname or wildcard \"{}\"", text(key)))
    }
}
