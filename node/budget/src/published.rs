//! Machines written down from published tables: small files, each of whose lines is a thing and
//! what is published of it.

use crate::Siloing;
use crate::cost::RATE_LIMIT;
use crate::machine::{
    BudgetDisk, BudgetDomain, BudgetMachine, BudgetPort, CpuCost, FabricWay, FigureSource, PerSecond, SeenShare,
};
use crate::passes::ContentWay;
use core::fmt;
use topology::{PciLink, plain};

/// Those that come with the program, by name.
pub const PUBLISHED: [(&str, &str); 3] = [
    ("cascade-lake", include_str!("../published/cascade-lake.txt")),
    ("naples", include_str!("../published/naples.txt")),
    ("rome", include_str!("../published/rome.txt")),
];

/// Longer files are none of these.
const TEXT_LIMIT: usize = 64 << 10;

/// No machine has more of anything.
const THINGS_LIMIT: usize = 1_024;

/// Longer names are none.
const NAME_LIMIT: usize = 200;

/// Highest bytes per second that are read.
const BYTES_LIMIT: f64 = 1e15;

/// Why a file is none of published figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishedError {
    /// Which line, from 1; 0 is the whole.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for PublishedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&plain(&self.why)),
            line => write!(f, "line {line}: {}", plain(&self.why)),
        }
    }
}

impl core::error::Error for PublishedError {}

/// A line's words: what it is of, and `name=value` for the rest.
struct Words<'a> {
    rest: Vec<&'a str>,
    source: FigureSource,
}

impl BudgetMachine {
    /// A machine from a file of published figures.
    ///
    /// # Errors
    /// Which line is not understood, and why.
    pub fn published(text: &str) -> Result<Self, PublishedError> {
        let whole = |why: &str| PublishedError { line: 0, why: why.to_owned() };
        if text.len() > TEXT_LIMIT {
            return Err(whole("a file of published figures has at most 64 KiB"));
        }
        let mut machine = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            machine.line(line).map_err(|why| PublishedError { line: at + 1, why })?;
        }
        if machine.domains.is_empty() {
            return Err(whole("no domain: a line as \"domain 0 cores=16 memory=115.2GB/s cache=22M/16\" for each"));
        }
        if machine.name.is_empty() || machine.from.is_empty() {
            return Err(whole(
                "a name and where the figures are from: lines as \"name A machine\" and \"from a table\"",
            ));
        }
        machine.domains.sort_by_key(|domain| domain.number);
        let known = |domain: u16| machine.domains.iter().any(|one| one.number == domain);
        let placed = machine.ports.iter().map(|port| port.domain).chain(machine.disks.iter().map(|disk| disk.domain));
        let ends = machine.fabric.iter().flat_map(|way| [way.from, way.to]);
        if let Some(missing) = placed.flatten().chain(ends).find(|domain| !known(*domain)) {
            return Err(whole(&format!("there is no domain {missing}")));
        }
        Ok(machine)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (what, rest) = line.split_once(char::is_whitespace).ok_or("it has one word")?;
        let rest = rest.trim();
        match what {
            "name" => {
                self.name = name(rest)?;
                return Ok(());
            }
            "from" => {
                self.from.push(name(rest)?);
                return if self.from.len() > THINGS_LIMIT {
                    Err("too many lines of this kind".to_owned())
                } else {
                    Ok(())
                };
            }
            "seen" => return self.seen(rest),
            _ => {}
        }
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let assumed = words.last() == Some(&"assumed");
        words.truncate(words.len() - usize::from(assumed));
        let source = if assumed { FigureSource::Assumed } else { FigureSource::Published };
        let words = Words { rest: words, source };
        match what {
            "domain" => self.domain(&words)?,
            "fabric" => self.fabric(&words)?,
            "port" => {
                words.only(&["domain", "rate", "pci", "slot"])?;
                let rate = words.rate("rate")?;
                let port = BudgetPort {
                    name: words.name()?,
                    domain: Some(words.place()?),
                    rate,
                    pci: words.pci()?,
                    slot: words.get("slot").map(str::to_owned),
                    running: None,
                };
                once(self.ports.iter().any(|other| other.name == port.name), &port.name)?;
                self.ports.push(port);
            }
            "disk" => {
                words.only(&["domain", "reads", "pci", "slot"])?;
                let rate = words.rate("reads")?;
                let disk = BudgetDisk {
                    name: words.name()?,
                    domain: Some(words.place()?),
                    rate,
                    pci: words.pci()?,
                    slot: words.get("slot").map(str::to_owned),
                };
                once(self.disks.iter().any(|other| other.name == disk.name), &disk.name)?;
                self.disks.push(disk);
            }
            "cpu" => {
                let [cost] = words.rest[..] else { return Err("processor time is as \"cpu 62%@190G\"".to_owned()) };
                once(self.cpu.is_some(), "processor time")?;
                self.cpu = Some(CpuCost::parse(cost)?);
            }
            _ => return Err(format!("\"{what}\" is none of name, from, domain, fabric, port, disk, cpu, seen")),
        }
        let most = [self.domains.len(), self.ports.len(), self.disks.len(), self.fabric.len()];
        if most.into_iter().any(|count| count > THINGS_LIMIT) {
            Err("too many lines of this kind".to_owned())
        } else {
            Ok(())
        }
    }

    fn domain(&mut self, words: &Words<'_>) -> Result<(), String> {
        words.only(&["socket", "cores", "memory", "cache"])?;
        let number = words.rest.first().and_then(|word| word.parse().ok()).ok_or("a domain has a number")?;
        if self.domains.iter().any(|domain| domain.number == number) {
            return Err(format!("domain {number} stands there twice"));
        }
        let cores = words.get("cores").map_or(Some(0), |text| text.parse().ok().filter(|cores| *cores <= 4_096));
        let memory = words.rate("memory")?;
        let cache = match words.get("cache") {
            Some(text) => Some(cache(text).ok_or("a cache is its bytes and its cores, as 22M/16")?),
            None => None,
        };
        let cores = cores.ok_or("cores are a number up to 4096")?;
        let socket = words.get("socket").map(str::parse).transpose().map_err(|_| "a socket has a number")?;
        let distances = Vec::new();
        self.domains.push(BudgetDomain {
            number,
            socket,
            distances,
            cores,
            has_memory: memory.is_some(),
            memory,
            cache,
        });
        Ok(())
    }

    fn fabric(&mut self, words: &Words<'_>) -> Result<(), String> {
        let form = || "fabric joins two domains at a rate each way, as \"fabric 0 1 38.4GB/s\"".to_owned();
        let [from, to, rate] = words.rest[..] else { return Err(form()) };
        let number = |text: &str| text.parse::<u16>().map_err(|_| form());
        let (from, to) = (number(from)?, number(to)?);
        let rate = PerSecond { bytes: bytes(rate).ok_or_else(form)?, source: words.source };
        if from == to {
            return Err(form());
        }
        if self.fabric.iter().any(|way| (way.from, way.to) == (from, to)) {
            return Err(format!("fabric of domains {from} and {to} stands there twice: its rate holds each way"));
        }
        self.fabric.extend([FabricWay { from, to, rate }, FabricWay { from: to, to: from, rate }]);
        Ok(())
    }

    /// `no 40 why`: siloing, percent of memory traffic that was another domain's.
    fn seen(&mut self, rest: &str) -> Result<(), String> {
        let form = || "what was seen is as \"seen network 13 why\": siloing, percent, reason".to_owned();
        let mut parts = rest.splitn(3, char::is_whitespace);
        let siloing = parts.next().and_then(|text| Siloing::ALL.into_iter().find(|siloing| siloing.name() == text));
        let percent =
            parts.next().and_then(|text| text.parse::<f64>().ok()).filter(|value| (0.0..=100.0).contains(value));
        let why = name(parts.next().unwrap_or_default())?;
        let (siloing, percent) = siloing.zip(percent).ok_or_else(form)?;
        self.seen.push(SeenShare { siloing, share: percent / 100.0, why });
        if self.seen.len() > THINGS_LIMIT { Err("too many lines of this kind".to_owned()) } else { Ok(()) }
    }
}

impl CpuCost {
    /// Reads `62%@190G`: percent of all cores, at bits per second; `62%@190G:slot` of one way alone.
    ///
    /// # Errors
    /// If it is no such text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, way) = match text.split_once(':') {
            Some((text, word)) => {
                let way = ContentWay::of_word(word).ok_or("processor time is of one way: kernel, slot or nic")?;
                (text, Some(way))
            }
            None => (text, None),
        };
        let parts = text.split_once('@').map(|(percent, bits)| (percent.strip_suffix('%').unwrap_or(percent), bits));
        let read = parts.and_then(|(percent, bits)| Some((percent.parse::<f64>().ok()?, scaled(bits)?)));
        let good = read.filter(|(percent, bits)| {
            *percent > 0.0 && *percent <= 100.0 && *bits >= RATE_LEAST && *bits <= RATE_LIMIT
        });
        let (percent, bits) = good
            .ok_or("processor time is percent of all cores at a rate of 1M or more, as 62%@190G or 62%@190G:kernel")?;
        Ok(Self { percent, bits, way })
    }
}

/// The least rate that somebody means: 190 without its G is none.
const RATE_LEAST: f64 = 1e6;

/// Refuses what was named before.
fn once(is_known: bool, name: &str) -> Result<(), String> {
    if is_known { Err(format!("{name} stands there twice")) } else { Ok(()) }
}

impl Words<'_> {
    fn name(&self) -> Result<String, String> {
        name(self.rest.first().filter(|word| !word.contains('=')).ok_or("it has no name")?)
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.rest.iter().find_map(|word| word.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value))
    }

    /// Whether there is nothing beside a name and these.
    fn only(&self, keys: &[&str]) -> Result<(), String> {
        let wrong =
            self.rest.iter().skip(1).find(|word| !word.split_once('=').is_some_and(|(name, _)| keys.contains(&name)));
        wrong.map_or(Ok(()), |word| Err(format!("\"{word}\" is none of {}=", keys.join("=, "))))
    }

    fn place(&self) -> Result<u16, String> {
        self.get("domain").and_then(|text| text.parse().ok()).ok_or_else(|| "it has no domain=NUMBER".to_owned())
    }

    fn rate(&self, key: &str) -> Result<Option<PerSecond>, String> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let bytes = bytes(text).ok_or_else(|| format!("\"{text}\" is no rate: as 25GB/s or 100Gbit/s"))?;
        Ok(Some(PerSecond { bytes, source: self.source }))
    }

    fn pci(&self) -> Result<Option<PerSecond>, String> {
        let Some(text) = self.get("pci") else { return Ok(None) };
        let rates = [("1.0", "2.5"), ("2.0", "5"), ("3.0", "8"), ("4.0", "16"), ("5.0", "32"), ("6.0", "64")];
        let link = text.split_once('x').and_then(|(generation, width)| {
            let (_, rate) = rates.into_iter().find(|(name, _)| *name == generation)?;
            PciLink::read(rate, width)
        });
        let link = link.ok_or_else(|| format!("\"{text}\" is no link of PCI Express: as 3.0x16"))?;
        Ok(Some(PerSecond { bytes: link.bytes() as f64, source: self.source }))
    }
}

/// A name or a sentence: some text, not too long.
fn name(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty() && text.chars().count() <= NAME_LIMIT && plain(text) == text;
    if is_good { Ok(text.to_owned()) } else { Err(format!("a name has 1 to {NAME_LIMIT} characters")) }
}

/// `22M/16`.
fn cache(text: &str) -> Option<(u64, usize)> {
    let (bytes, cores) = text.split_once('/')?;
    let bytes = bytes.strip_suffix('M')?.parse::<u64>().ok().filter(|mib| (1..=65_536).contains(mib))? << 20;
    Some((bytes, cores.parse().ok().filter(|cores| (1..=4_096).contains(cores))?))
}

/// Bytes per second of `25GB/s` or `100Gbit/s`, by powers of 1,000.
fn bytes(text: &str) -> Option<f64> {
    let (number, per) =
        text.strip_suffix("bit/s").map(|number| (number, 8.0)).or_else(|| Some((text.strip_suffix("B/s")?, 1.0)))?;
    scaled(number).map(|value| value / per).filter(|bytes| *bytes > 0.0 && *bytes <= BYTES_LIMIT)
}

/// `190G`, `1.5T`, `40`: by powers of 1,000.
fn scaled(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..)? {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { digits.parse::<f64>().ok().map(|value| value * factor) } else { None }
}
