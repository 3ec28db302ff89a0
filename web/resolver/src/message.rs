//! Questions, and what an answer says to one.
//!
//! Letters are asked for as they are kept, in small ones: random ones would make an
//! answer harder to guess, and there are servers that tell names apart by them.

use core::net::IpAddr;
use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::name::{Name, ParsedName, ToName};
use domain::base::{Message, ParsedRecord};
use domain::rdata::{A, Aaaa, Cname, Soa, Srv};

/// The most addresses, or hosts of a service, that are taken of one answer.
pub const ADDRESSES_MAX: usize = 64;
/// The most aliases that are followed within an answer.
const ALIASES_MAX: usize = 12;
/// The longest a name is, as it is written (RFC 1035 section 2.3.4).
const NAME_MAX: usize = 253;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordKind {
    /// Addresses of version 4.
    V4,
    /// Addresses of version 6.
    V6,
    /// Hosts that offer a service (RFC 2782).
    Service,
}

impl RecordKind {
    const fn wire(self) -> Rtype {
        match self {
            Self::V4 => Rtype::A,
            Self::V6 => Rtype::AAAA,
            Self::Service => Rtype::SRV,
        }
    }
}

/// A host that offers a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceRecord {
    /// Those of the least number are asked first.
    pub priority: u16,
    /// How much of them it is to have.
    pub weight: u16,
    /// Where it offers it.
    pub port: u16,
    /// The host.
    pub target: HostName,
}

/// The name of a host, in small letters, without a dot at its end.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HostName(Box<[u8]>);

impl HostName {
    /// Reads one; none if it cannot be a host's: labels of up to 63 letters, digits,
    /// hyphens and underscores, 253 bytes together.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        let is_label = |label: &[u8]| {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.iter().all(plain)
        };
        let good = text.len() <= NAME_MAX && text.split(|byte| *byte == b'.').all(is_label);
        good.then(|| Self(text.to_ascii_lowercase().into()))
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// With the length of each label before it.
    fn wire(&self) -> Vec<u8> {
        let mut wire = Vec::with_capacity(self.0.len() + 2);
        for label in self.0.split(|byte| *byte == b'.') {
            // At most 63.
            wire.push(label.len() as u8);
            wire.extend_from_slice(label);
        }
        wire.push(0);
        wire
    }

    fn of_answer(name: &impl ToName) -> Option<Self> {
        let mut text = Vec::new();
        for label in name.iter_labels().filter(|label| !label.is_root()) {
            if !text.is_empty() {
                text.push(b'.');
            }
            text.extend_from_slice(label.as_slice());
        }
        Self::parse(&text)
    }
}

/// A question: its number, which an answer repeats, and what it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its number.
    pub id: u16,
    /// Whose addresses or hosts.
    pub name: HostName,
    /// Which.
    pub kind: RecordKind,
}

impl Question {
    /// The message that asks it, with recursion.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let [high, low] = self.id.to_be_bytes();
        let mut message = vec![high, low, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(self.name.wire());
        message.extend(self.kind.wire().to_int().to_be_bytes());
        message.extend(Class::IN.to_int().to_be_bytes());
        message
    }
}

/// What an answer says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// These are its addresses, for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// These hosts offer it, for so many seconds.
    Services(Vec<ServiceRecord>, u32),
    /// Another name has them, which the answer says nothing more of.
    Alias(HostName, u32),
    /// There are none of this kind, for so many seconds; with `true`, there is no such
    /// name at all.
    Nothing(bool, u32),
    /// It is too long for a datagram.
    Truncated,
    /// The server could not, or would not, answer: its response code.
    Failed(u8),
}

/// Why a message is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAnswer {
    /// It answers another question, or is no message: somebody else's, perhaps.
    Unrelated,
    /// It answers ours, and cannot be read.
    Malformed,
}

/// The response code of a server that cannot read a question.
pub(crate) const FORMAT_ERROR: u8 = 1;

/// What a message says to a question.
///
/// # Errors
/// It is no answer to it.
pub fn read(message: &[u8], question: &Question) -> Result<Said, NoAnswer> {
    let message = Message::from_slice(message).map_err(|_| NoAnswer::Unrelated)?;
    let header = message.header();
    if header.id() != question.id || !header.qr() || header.opcode().to_int() != 0 {
        return Err(NoAnswer::Unrelated);
    }
    let wanted = question.kind.wire();
    let code = header.rcode();
    match message.sole_question() {
        Ok(asked) => {
            let wire = question.name.wire();
            let name = Name::from_slice(&wire).map_err(|_| NoAnswer::Unrelated)?;
            if !asked.qname().name_eq(&name) || asked.qtype() != wanted || asked.qclass() != Class::IN {
                return Err(NoAnswer::Unrelated);
            }
        }
        // Who cannot read a question does not repeat it (RFC 1035 section 4.1.1).
        Err(_) if message.header_counts().qdcount() == 0 && code != Rcode::NOERROR => {
            return Ok(Said::Failed(code.to_int()));
        }
        Err(_) => return Err(NoAnswer::Unrelated),
    }
    if header.tc() {
        return Ok(Said::Truncated);
    }
    match code {
        Rcode::NOERROR => in_answer(message, question, wanted),
        Rcode::NXDOMAIN => Ok(Said::Nothing(true, negative(message))),
        code => Ok(Said::Failed(code.to_int())),
    }
}

type Parsed<'a> = ParsedRecord<'a, [u8]>;

/// The addresses of the name, or of what it is another name for.
fn in_answer(message: &Message<[u8]>, question: &Question, wanted: Rtype) -> Result<Said, NoAnswer> {
    let malformed = |_| NoAnswer::Malformed;
    let section = message.answer().map_err(malformed)?;
    let mut records: Vec<Parsed<'_>> = Vec::new();
    for record in section {
        let record = record.map_err(malformed)?;
        // Others' records are no answer to this.
        let known = record.rtype() == wanted || record.rtype() == Rtype::CNAME;
        if known && record.class() == Class::IN && records.len() < ADDRESSES_MAX + ALIASES_MAX {
            records.push(record);
        }
    }
    let wire = question.name.wire();
    let first = Name::from_slice(&wire).map_err(|_| NoAnswer::Malformed)?;
    let mut alias: Option<ParsedName<&[u8]>> = None;
    let mut seconds = u32::MAX;
    for _ in 0..=ALIASES_MAX {
        let is_it = |record: &&Parsed<'_>| match &alias {
            Some(alias) => record.owner().name_eq(alias),
            None => record.owner().name_eq(&first),
        };
        let (mut found, mut services) = (Vec::new(), Vec::new());
        for record in records.iter().filter(|record| record.rtype() == wanted).filter(is_it).take(ADDRESSES_MAX) {
            match wanted {
                // A host that has no name offers nothing (RFC 2782).
                Rtype::SRV => services.extend(service(record)?),
                _ => found.push(address(record)?),
            }
            seconds = seconds.min(record.ttl().as_secs());
        }
        match (found.is_empty(), services.is_empty()) {
            (false, _) => return Ok(Said::Addresses(found, seconds)),
            (_, false) => return Ok(Said::Services(services, seconds)),
            _ => {}
        }
        let Some(record) = records.iter().filter(|record| record.rtype() == Rtype::CNAME).find(is_it) else {
            return match alias {
                Some(alias) => {
                    let name = HostName::of_answer(&alias).ok_or(NoAnswer::Malformed)?;
                    // With an authority, there are none; without one, it is to be asked.
                    let is_told = message.header_counts().nscount() > 0;
                    let none = Said::Nothing(false, seconds.min(negative(message)));
                    Ok(if is_told { none } else { Said::Alias(name, seconds) })
                }
                None => Ok(Said::Nothing(false, negative(message))),
            };
        };
        seconds = seconds.min(record.ttl().as_secs());
        let cname = record.to_record::<Cname<ParsedName<&[u8]>>>().map_err(malformed)?.ok_or(NoAnswer::Malformed)?;
        alias = Some(*cname.data().cname());
    }
    // Aliases in a circle lead to nothing.
    Ok(Said::Nothing(false, 0))
}

fn address(record: &Parsed<'_>) -> Result<IpAddr, NoAnswer> {
    let v4 = record.to_record::<A>().map_err(|_| NoAnswer::Malformed)?;
    if let Some(v4) = v4 {
        return Ok(v4.data().addr().into());
    }
    let v6 = record.to_record::<Aaaa>().map_err(|_| NoAnswer::Malformed)?.ok_or(NoAnswer::Malformed)?;
    Ok(v6.data().addr().into())
}

fn service(record: &Parsed<'_>) -> Result<Option<ServiceRecord>, NoAnswer> {
    let malformed = |_| NoAnswer::Malformed;
    let record = record.to_record::<Srv<ParsedName<&[u8]>>>().map_err(malformed)?.ok_or(NoAnswer::Malformed)?;
    let data = record.data();
    let target = HostName::of_answer(data.target());
    let made = |target| ServiceRecord { priority: data.priority(), weight: data.weight(), port: data.port(), target };
    Ok(target.map(made))
}

/// How long there is nothing: what the authority's record says (RFC 2308 section 5).
fn negative(message: &Message<[u8]>) -> u32 {
    let Ok(section) = message.authority() else { return 0 };
    let soa = section.limit_to::<Soa<ParsedName<&[u8]>>>().find_map(Result::ok);
    soa.map_or(0, |soa| soa.ttl().as_secs().min(soa.data().minimum().as_secs()))
}

#[cfg(test)]
pub(crate) mod tests;
