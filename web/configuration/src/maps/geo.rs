//! `geo`: a value for each address.

use super::text;
use crate::addresses::{Network, address, forwarded, network};
use app::Prefix;
use core::net::{IpAddr, Ipv4Addr};
use features::Value;
use std::collections::{BTreeMap, HashMap};

/// A `geo`.
#[derive(Debug)]
pub struct Geo {
    /// The address that is looked for; `None`: the client's.
    pub source: Option<Value>,
    /// Its value is looked for each time that it is asked for (`volatile`).
    pub volatile: bool,
    proxies: Vec<Prefix>,
    recursive: bool,
    /// Where addresses begin to have another value, ascending: a place in
    /// `values`.
    version_4: Vec<(u32, u32)>,
    version_6: Vec<(u128, u32)>,
    values: Vec<Box<[u8]>>,
}

/// The place of what has no value.
const NOTHING: u32 = 0;

/// What nginx looks for where there is no address.
const NO_ADDRESS: Ipv4Addr = Ipv4Addr::BROADCAST;

impl Geo {
    /// The value for an address: what `source` is, or the client's (`None` at a
    /// Unix socket); behind a proxy of this block, the one that `fields`, the
    /// values of X-Forwarded-For in their order, tell of.
    pub fn find<'a>(&self, from: Option<IpAddr>, fields: impl DoubleEndedIterator<Item = &'a [u8]>) -> &[u8] {
        let believed = |at: Option<IpAddr>| at.is_some_and(|at| self.proxies.iter().any(|proxy| proxy.contains(at)));
        let told = if self.proxies.is_empty() { None } else { forwarded(from, fields, believed, self.recursive) };
        let from = told.map(|told| told.ip()).or(from).map(|from| from.to_canonical());
        let place = match from.unwrap_or(IpAddr::V4(NO_ADDRESS)) {
            IpAddr::V4(address) => at(&self.version_4, address.to_bits()),
            IpAddr::V6(address) => at(&self.version_6, address.to_bits()),
        };
        &self.values[place as usize]
    }

    /// An address as the text of `source` has it.
    #[must_use]
    pub fn address(text: &[u8]) -> Option<IpAddr> {
        address(text)
    }
}

fn at<T: Ord + Copy>(starts: &[(T, u32)], address: T) -> u32 {
    let behind = starts.partition_point(|(start, _)| *start <= address);
    behind.checked_sub(1).map_or(NOTHING, |at| starts[at].1)
}

/// Ranges of addresses that have the same upper half: the lower halves of first
/// and last, and a place in the values. They do not overlap.
type Half = Vec<(u16, u16, u32)>;

/// A `geo` whose lines are read.
#[derive(Debug, Default)]
pub struct GeoBuilder {
    values: Vec<Box<[u8]>>,
    known: HashMap<Box<[u8]>, u32>,
    proxies: Vec<Prefix>,
    recursive: bool,
    volatile: bool,
    ranges: bool,
    /// A network was added.
    networks: bool,
    /// By first address, as of version 6, and length.
    version_4: BTreeMap<(u128, u8), u32>,
    version_6: BTreeMap<(u128, u8), u32>,
    /// Ranges by the upper half of their addresses.
    halves: BTreeMap<u16, Half>,
    default: Option<u32>,
    warnings: Vec<String>,
}

impl GeoBuilder {
    /// Adds a line of the block. What nginx warns of is in
    /// [`GeoBuilder::warnings`].
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn add(&mut self, words: &[&[u8]]) -> Result<(), String> {
        match *words {
            [b"ranges"] if self.networks => {
                return Err("the \"ranges\" directive must be the first directive inside \"geo\" block".into());
            }
            [b"ranges"] => self.ranges = true,
            [b"proxy_recursive"] => self.recursive = true,
            [b"volatile"] => self.volatile = true,
            [b"proxy", net] => {
                let Network { address, len, .. } = self.network(net)?;
                self.proxies.extend(format!("{address}/{len}").parse::<Prefix>());
            }
            [key, value] if self.ranges => self.range(key, value)?,
            [key, value] => self.cidr(key, value)?,
            _ => return Err("invalid number of the geo parameters".into()),
        }
        Ok(())
    }

    /// What nginx warned of since this was asked for last.
    pub fn warnings(&mut self) -> Vec<String> {
        core::mem::take(&mut self.warnings)
    }

    /// The end of the block; `source` is what is looked for, if not the client.
    #[must_use]
    pub fn finish(mut self, source: Option<Value>) -> Geo {
        let default = self.default.unwrap_or_else(|| self.value(b""));
        let (version_4, version_6) = if self.ranges {
            let version_4 = joined(&self.halves, default);
            // All of version 6 have what the last of version 4 has, as in nginx.
            let last = at(&version_4, u32::MAX);
            (version_4, vec![(0, last)])
        } else {
            // The same addresses, where nothing else was said.
            self.version_4.entry((0, 0)).or_insert(default);
            self.version_6.entry((0, 0)).or_insert(default);
            let shrink = |(start, place): (u128, u32)| ((start >> 96) as u32, place);
            (flat(&self.version_4).into_iter().map(shrink).collect(), flat(&self.version_6))
        };
        let Self { values, proxies, recursive, volatile, .. } = self;
        Geo { source, volatile, proxies, recursive, version_4, version_6, values }
    }

    fn value(&mut self, value: &[u8]) -> u32 {
        if self.values.is_empty() {
            // The first is that of what has none.
            self.values.push([].into());
            self.known.insert([].into(), NOTHING);
        }
        let place = self.values.len() as u32;
        *self.known.entry(value.into()).or_insert_with(|| {
            self.values.push(value.into());
            place
        })
    }

    fn network(&mut self, net: &[u8]) -> Result<Network, String> {
        if net == b"255.255.255.255" {
            return Ok(Network { address: NO_ADDRESS.into(), len: 32, low_bits: false });
        }
        let network = network(net).ok_or_else(|| format!("invalid network \"{}\"", text(net)))?;
        if network.low_bits {
            self.warnings.push(format!("low address bits of {} are meaningless", text(net)));
        }
        Ok(network)
    }

    fn cidr(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.networks = true;
        let (deletes, net) = if key == b"delete" { (true, value) } else { (false, key) };
        if key == b"default" {
            let place = self.value(value);
            for networks in [&mut self.version_4, &mut self.version_6] {
                if let Some(old) = networks.insert((0, 0), place) {
                    let (new, old) = (text(value), text(&self.values[old as usize]));
                    let said = format!("duplicate network \"default\", value: \"{new}\", old value: \"{old}\"");
                    self.warnings.push(said);
                }
            }
            return Ok(());
        }
        let Network { address, len, .. } = self.network(net)?;
        let networks = if address.is_ipv4() { &mut self.version_4 } else { &mut self.version_6 };
        let key = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, len),
            IpAddr::V6(address) => (address.to_bits(), len),
        };
        if deletes {
            if networks.remove(&key).is_none() {
                self.warnings.push(format!("no network \"{}\" to delete", text(net)));
            }
            return Ok(());
        }
        let place = self.value(value);
        let networks = if address.is_ipv4() { &mut self.version_4 } else { &mut self.version_6 };
        if let Some(old) = networks.insert(key, place) {
            let (net, new, old) = (text(net), text(value), text(&self.values[old as usize]));
            self.warnings.push(format!("duplicate network \"{net}\", value: \"{new}\", old value: \"{old}\""));
        }
        Ok(())
    }

    fn range(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        if key == b"default" {
            if let Some(old) = self.default {
                let (new, old) = (text(value), text(&self.values[old as usize]));
                let said = format!("duplicate default geo range value: \"{new}\", old value: \"{old}\"");
                self.warnings.push(said);
            }
            self.default = Some(self.value(value));
            return Ok(());
        }
        let (deletes, net) = if key == b"delete" { (true, value) } else { (false, key) };
        let (start, end) = bounds(net).ok_or_else(|| format!("invalid range \"{}\"", text(net)))?;
        let pieces = (start >> 16..=end >> 16).map(|half| {
            let first = if half == start >> 16 { start as u16 } else { 0 };
            let last = if half == end >> 16 { end as u16 } else { u16::MAX };
            (half as u16, first, last)
        });
        if deletes {
            let mut missing = false;
            for (half, first, last) in pieces {
                let found = self.halves.get_mut(&half).and_then(|ranges| {
                    let at = ranges.iter().position(|(from, to, _)| (*from, *to) == (first, last))?;
                    Some(ranges.remove(at))
                });
                missing |= found.is_none();
            }
            if missing {
                self.warnings.push(format!("no address range \"{}\" to delete", text(net)));
            }
            return Ok(());
        }
        let place = self.value(value);
        for (half, first, last) in pieces {
            match put(self.halves.entry(half).or_default(), (first, last, place)) {
                Put::Done => {}
                Put::Instead(old) => {
                    let (net, new, old) = (text(net), text(value), text(&self.values[old as usize]));
                    self.warnings.push(format!("duplicate range \"{net}\", value: \"{new}\", old value: \"{old}\""));
                }
                Put::Overlaps(from, to) => {
                    let of = |low: u16| Ipv4Addr::from_bits(u32::from(half) << 16 | u32::from(low));
                    return Err(format!("range \"{}\" overlaps \"{}-{}\"", text(net), of(from), of(to)));
                }
            }
        }
        Ok(())
    }
}

/// First and last address of a range.
fn bounds(net: &[u8]) -> Option<(u32, u32)> {
    let dash = net.iter().position(|byte| *byte == b'-')?;
    match (address(&net[..dash])?, address(&net[dash + 1..])?) {
        (IpAddr::V4(start), IpAddr::V4(end)) if start <= end => Some((start.to_bits(), end.to_bits())),
        _ => None,
    }
}

enum Put {
    Done,
    /// In place of this value.
    Instead(u32),
    /// It overlaps this range, and lies not within it.
    Overlaps(u16, u16),
}

/// Adds a range, which may lie within another.
fn put(ranges: &mut Half, (start, end, place): (u16, u16, u32)) -> Put {
    // The last that does not begin behind its end.
    let Some(at) = ranges.partition_point(|(from, _, _)| *from <= end).checked_sub(1) else {
        ranges.insert(0, (start, end, place));
        return Put::Done;
    };
    let (from, to, old) = ranges[at];
    if start > to {
        ranges.insert(at + 1, (start, end, place));
    } else if (from, to) == (start, end) {
        ranges[at].2 = place;
        return Put::Instead(old);
    } else if start >= from && end <= to {
        let before = (start > from).then(|| (from, start - 1, old));
        let behind = (end < to).then(|| (end + 1, to, old));
        ranges.splice(at..=at, before.into_iter().chain([(start, end, place)]).chain(behind));
    } else {
        return Put::Overlaps(from, to);
    }
    Put::Done
}

/// Where addresses begin to have another value.
fn joined(halves: &BTreeMap<u16, Half>, default: u32) -> Vec<(u32, u32)> {
    let mut starts = vec![(0, default)];
    for (half, ranges) in halves {
        for (from, to, place) in ranges {
            let high = u32::from(*half) << 16;
            begin(&mut starts, high | u32::from(*from), *place);
            if let Some(next) = (high | u32::from(*to)).checked_add(1) {
                begin(&mut starts, next, default);
            }
        }
    }
    starts
}

/// The same of networks, of which the longest counts; one holds all addresses.
fn flat(networks: &BTreeMap<(u128, u8), u32>) -> Vec<(u128, u32)> {
    let (mut starts, mut open) = (Vec::new(), Vec::<(u128, u32)>::new());
    // Networks that hold others come before them.
    for ((start, len), place) in networks {
        close(&mut starts, &mut open, *start);
        begin(&mut starts, *start, *place);
        open.push((start | u128::MAX.checked_shr(u32::from(*len)).unwrap_or(0), *place));
    }
    close(&mut starts, &mut open, u128::MAX);
    starts
}

/// Ends networks that lie before `next`.
fn close(starts: &mut Vec<(u128, u32)>, open: &mut Vec<(u128, u32)>, next: u128) {
    while let Some((last, _)) = open.pop_if(|(last, _)| *last < next) {
        if let Some((_, outer)) = open.last() {
            begin(starts, last + 1, *outer);
        }
    }
}

/// From `start` on it is `place`.
fn begin<T: PartialEq>(starts: &mut Vec<(T, u32)>, start: T, place: u32) {
    if starts.last().is_some_and(|(last, _)| *last == start) {
        starts.pop();
    }
    if starts.last().is_none_or(|(_, last)| *last != place) {
        starts.push((start, place));
    }
}
