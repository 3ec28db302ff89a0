//! What a flag's value means: one type and one parser each, with an error
//! that says what was expected and shows an example.

use crate::work::{WORK_SPANS, burn};
use server::{AccessLog, RESPOND_SIZE_MAX, RequestWork, Respond};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// Why a value was refused: one sentence for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadValue(String);

impl BadValue {
    /// A refusal with this reason.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadValue {}

/// An address with its subnet's prefix length: `10.0.0.2/24`, `fd00::2/64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr {
    /// The address itself, host bits included.
    pub address: IpAddr,
    /// The subnet's prefix length in bits.
    pub prefix: u8,
}

impl Cidr {
    /// Whether `other` is in this address's subnet.
    #[must_use]
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let shift = 32 - u32::from(self.prefix);
                (u32::from(a) ^ u32::from(b)).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let shift = 128 - u32::from(self.prefix);
                (u128::from(a) ^ u128::from(b)).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Whether these can be the gateways of a host with those addresses: each in a subnet of them, no address of
/// its own, and one for each family.
///
/// # Errors
/// What makes no sense; for people.
pub fn check_gateways(addresses: &[Cidr], gateways: &[IpAddr]) -> Result<(), String> {
    for (index, gateway) in gateways.iter().enumerate() {
        if !addresses.iter().any(|ours| ours.contains(*gateway)) {
            return Err(format!("the gateway {gateway} is in no subnet of --addr"));
        }
        if addresses.iter().any(|ours| ours.address == *gateway) {
            return Err(format!("the gateway {gateway} is our own address (--addr)"));
        }
        if gateways[..index].iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
            return Err("there is more than one gateway of the same family".to_owned());
        }
    }
    Ok(())
}

impl FromStr for Cidr {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad =
            |why: &str| BadValue::new(format!("{why}; write an address and its prefix length, as in 10.0.0.2/24"));
        let (address, prefix) = text.split_once('/').ok_or_else(|| bad("the prefix length is missing"))?;
        let address: IpAddr = address.parse().map_err(|_| bad("this is not an IPv4 or IPv6 address"))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix
            .parse()
            .ok()
            .filter(|bits| *bits <= longest)
            .ok_or_else(|| bad(&format!("the prefix length must be from 0 to {longest}")))?;
        if address.is_unspecified() || address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(bad("a host cannot have this address"));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Source addresses of a load generator: one address, `first-last`, or a
/// subnet whose host addresses are all used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    /// The first address.
    pub first: IpAddr,
    /// The last address, of the same family and not below the first.
    pub last: IpAddr,
}

/// More source addresses than this are refused. With 64,512 ports each they
/// stand for over 4 billion connections to one server address and port.
pub const MAX_SOURCE_ADDRESSES: u128 = 65_536;

impl AddressRange {
    /// How many addresses there are.
    #[must_use]
    pub fn count(&self) -> u128 {
        number(self.last).saturating_sub(number(self.first)).saturating_add(1)
    }

    /// The addresses, in order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let v4 = self.first.is_ipv4();
        (number(self.first)..=number(self.last)).map(move |n| address(n, v4))
    }
}

impl FromStr for AddressRange {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |why: String| {
            BadValue::new(format!("{why}; write one address, 10.0.0.1-10.0.0.50, or a subnet as in 10.0.1.0/24"))
        };
        let parse = |text: &str| -> Result<IpAddr, BadValue> {
            text.parse().map_err(|_| bad(format!("'{text}' is not an IPv4 or IPv6 address")))
        };
        let range = if let Some((first, last)) = text.split_once('-') {
            Self { first: parse(first)?, last: parse(last)? }
        } else if let Some((net, prefix)) = text.split_once('/') {
            hosts(parse(net)?, prefix).ok_or_else(|| bad("this is not a subnet".into()))?
        } else {
            let only = parse(text)?;
            Self { first: only, last: only }
        };
        if range.first.is_ipv4() != range.last.is_ipv4() {
            return Err(bad("the first and the last address are of different families".into()));
        }
        if number(range.last) < number(range.first) {
            return Err(bad("the last address is below the first".into()));
        }
        if range.count() > MAX_SOURCE_ADDRESSES {
            return Err(bad(format!("at most {MAX_SOURCE_ADDRESSES} addresses are used")));
        }
        Ok(range)
    }
}

/// A subnet's host addresses: for IPv4 without network and broadcast address
/// (RFC 1122 section 3.2.1.3), except where the subnet has no others
/// (RFC 3021).
fn hosts(net: IpAddr, prefix: &str) -> Option<AddressRange> {
    let bits: u32 = if net.is_ipv4() { 32 } else { 128 };
    let prefix: u32 = prefix.parse().ok().filter(|p| *p <= bits)?;
    let span = 1_u128.checked_shl(bits - prefix).map_or(u128::MAX, |size| size - 1);
    let first = number(net) & !span;
    let last = first.saturating_add(span);
    let (first, last) = if net.is_ipv4() && span > 1 { (first + 1, last - 1) } else { (first, last) };
    Some(AddressRange { first: address(first, net.is_ipv4()), last: address(last, net.is_ipv4()) })
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

fn address(number: u128, v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(n) if v4 => IpAddr::V4(Ipv4Addr::from(n)),
        _ => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

/// A number of bytes. `K`, `M` and `G` are powers of 1,024, as nginx has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        scaled(text, 1_024.0, &["", "K", "M", "G", "T"])
            .map(Self)
            .ok_or_else(|| BadValue::new("write a number of bytes, as in 4096, 64K, 256M or 1G (powers of 1,024)"))
    }
}

/// A rate at which connections send, in bytes per second: not 0, at which
/// nothing would ever be sent.
pub fn pacing_rate(text: &str) -> Result<NonZeroU64, BadValue> {
    let Size(bytes) = text.parse()?;
    NonZeroU64::new(bytes)
        .ok_or_else(|| BadValue::new("write bytes per second above 0, as in 125000, 64K or 10M (powers of 1,024)"))
}

/// A number of bytes, or `off` for none.
pub fn copies(text: &str) -> Result<Size, BadValue> {
    if text == "off" { Ok(Size(0)) } else { text.parse() }
}

/// How many of something. `k`, `M` and `G` are powers of 1,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        scaled(text, 1_000.0, &["", "K", "M", "G"])
            .filter(|count| *count > 0)
            .map(Self)
            .ok_or_else(|| BadValue::new("write a number above 0, as in 64, 10k or 1M (powers of 1,000)"))
    }
}

/// Bits per second: `100M`, `2.5G`. Powers of 1,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BitRate(pub u64);

impl FromStr for BitRate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let digits = text.strip_suffix("bit").unwrap_or(text);
        scaled(digits, 1_000.0, &["", "K", "M", "G"])
            .filter(|rate| *rate >= 1_000)
            .map(Self)
            .ok_or_else(|| BadValue::new("write bits per second, at least 1k, as in 100M or 2.5G (powers of 1,000)"))
    }
}

/// Reads `10s`, `500ms`, `250us`, `1.5m`; a bare number is refused, for its
/// unit would be a guess.
///
/// # Errors
/// If it is not a number with a unit, or longer than a year.
pub fn duration(text: &str) -> Result<Duration, BadValue> {
    const UNITS: [(&str, f64); 6] = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    const LONGEST: f64 = 365.0 * 86_400.0;
    UNITS
        .iter()
        .find_map(|(unit, seconds)| Some(plain_decimal(text.strip_suffix(unit)?)? * seconds))
        .filter(|seconds| *seconds <= LONGEST)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| BadValue::new("write a time with its unit, as in 10s, 500ms, 250us or 2m"))
}

/// Like [`duration`], but a bare number is of microseconds, and at most
/// 100 ms: what a frame may be held back for.
///
/// # Errors
/// As [`duration`], or if it is longer.
pub fn micros(text: &str) -> Result<Duration, BadValue> {
    const LONGEST: Duration = Duration::from_millis(100);
    let bare = text.parse().map(Duration::from_micros);
    let span = bare.or_else(|_| duration(text))?;
    if span <= LONGEST { Ok(span) } else { Err(BadValue::new("write a time of at most 100ms, as in 100us")) }
}

/// Like [`duration`], above zero.
///
/// # Errors
/// As [`duration`], or if it is zero.
pub fn nonzero_duration(text: &str) -> Result<Duration, BadValue> {
    duration(text)?
        .checked_sub(Duration::from_nanos(1))
        .map(|rest| rest + Duration::from_nanos(1))
        .ok_or_else(|| BadValue::new("this must be longer than zero"))
}

/// A request header as `Name: value`; what it may hold is the generator's to
/// say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The field name.
    pub name: String,
    /// The field value, without surrounding blanks.
    pub value: String,
}

impl FromStr for Header {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| BadValue::new("the colon is missing; write it as in 'Accept-Language: en'"))?;
        Ok(Self { name: name.to_owned(), value: value.trim_matches([' ', '\t']).to_owned() })
    }
}

/// Reads a fixed answer: a size, or a text; `text:` before a text that would
/// read as a size.
///
/// # Errors
/// If a size is larger than a server holds.
pub fn respond(text: &str) -> Result<Respond, BadValue> {
    if let Some(text) = text.strip_prefix("text:") {
        return Ok(Respond::Text(text.to_owned()));
    }
    match text.parse::<Size>() {
        Ok(Size(bytes)) if bytes <= RESPOND_SIZE_MAX => Ok(Respond::Size(bytes)),
        Ok(_) => Err(BadValue::new(
            "a fixed answer has at most 1048512K: with its head it must fit into a connection's queue of 1G",
        )),
        Err(_) => Ok(Respond::Text(text.to_owned())),
    }
}

const _: () = assert!(RESPOND_SIZE_MAX == 1_048_512 << 10, "the error above says how much it is");

/// Reads what each request is to cost.
///
/// # Errors
/// If it is not of the one kind that there is, or too little or too much.
pub fn work(text: &str) -> Result<RequestWork, BadValue> {
    let bad = || BadValue::new("write burn: and a time from 1us to 1s, as in burn:1.8ms");
    let span = duration(text.strip_prefix("burn:").ok_or_else(bad)?).map_err(|_| bad())?;
    if span < WORK_SPANS.0 || span > WORK_SPANS.1 {
        return Err(bad());
    }
    Ok(RequestWork { span, burn })
}

const _: () = assert!(WORK_SPANS.0.as_micros() == 1 && WORK_SPANS.1.as_secs() == 1, "the error above says so");

/// Reads where the access log goes.
///
/// # Errors
/// If it is empty.
pub fn access_log(text: &str) -> Result<AccessLog, BadValue> {
    match text {
        "" => Err(BadValue::new("write off, - for standard output, stderr, or a file's name")),
        "off" => Ok(AccessLog::Off),
        // By its name, what is no file cannot be opened again.
        "-" | "stdout" | "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Ok(AccessLog::Stdout),
        "stderr" | "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Ok(AccessLog::Stderr),
        file => Ok(AccessLog::File(file.into())),
    }
}

/// Reads where metrics are to be had: a port of this machine's own address
/// 127.0.0.1, or an address with its port.
///
/// # Errors
/// If it is neither.
pub fn metrics_address(text: &str) -> Result<SocketAddr, BadValue> {
    let port = text.parse().ok().filter(|port| *port > 0).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|| text.parse().ok().filter(|address: &SocketAddr| address.port() > 0)).ok_or_else(|| {
        BadValue::new("write ADDRESS:PORT, as in 127.0.0.1:9145 or [::]:9145, or a port, of 127.0.0.1 then")
    })
}

/// An IP address.
///
/// # Errors
/// If it is none.
pub fn ip_address(text: &str) -> Result<IpAddr, BadValue> {
    text.parse().map_err(|_| BadValue::new("this is not an IPv4 or IPv6 address; write it as in 10.0.0.1 or fd00::1"))
}

/// A whole number with a suffix: `number × step^k`, where that is whole (but
/// for the last bits of the floating point) and fits into 53 bits.
fn scaled(text: &str, step: f64, suffixes: &[&str]) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = text[digits.len()..].to_ascii_uppercase();
    let power = suffixes.iter().position(|known| *known == suffix)?;
    let value = plain_decimal(digits)? * step.powi(i32::try_from(power).ok()?);
    let whole = value.round();
    ((value - whole).abs() < 1e-6 && whole < 9_007_199_254_740_992.0).then_some(whole as u64)
}

/// Digits with at most one point: no sign, exponent, infinity or blank, which
/// the standard parser would all take.
fn plain_decimal(text: &str) -> Option<f64> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let plain = digits > 0 && text.len() - digits <= 1 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}
