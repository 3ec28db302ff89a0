//! Logical cores that share a physical one with the generator's (SMT), and how busy they are.

use core::time::Duration;
use cpu::Clock;
use load::Sibling;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use wire::Time;

/// The siblings of some cores at a moment.
#[derive(Debug)]
pub struct Siblings {
    at: Time,
    /// Each with the generator's core that it belongs to.
    all: BTreeMap<u16, u16>,
    own: Vec<u16>,
    busy: BTreeMap<u16, Duration>,
}

impl Siblings {
    /// Those of the cores that the generator is pinned to.
    pub fn of(cores: &[u16]) -> Self {
        let all = siblings(Path::new("/sys/devices/system/cpu"), cores);
        Self { at: Clock.now(), all, own: cores.to_vec(), busy: busy(&stat()) }
    }

    /// How busy they were until now.
    pub fn since(&self) -> Vec<Sibling> {
        let span = Clock.now().since(self.at).as_secs_f64().max(1e-9);
        let now = busy(&stat());
        let share = |core: u16| {
            let time = now.get(&core)?.saturating_sub(*self.busy.get(&core)?);
            Some(time.as_secs_f64() / span)
        };
        let of = |(core, of): (&u16, &u16)| {
            Some(Sibling { core: *core, of: *of, own: self.own.contains(core), busy: share(*core)?.min(1.0) })
        };
        self.all.iter().filter_map(of).collect()
    }
}

/// The siblings of these cores (sysfs-devices-system-cpu, topology/thread_siblings_list). Two of the
/// generator's own are named once.
fn siblings(cpus: &Path, cores: &[u16]) -> BTreeMap<u16, u16> {
    let mut all = BTreeMap::new();
    for core in cores {
        let path = cpus.join(format!("cpu{core}/topology/thread_siblings_list"));
        let text = fs::read_to_string(path).unwrap_or_default();
        for sibling in list(text.trim()).into_iter().filter(|sibling| sibling != core) {
            if !cores.contains(&sibling) || sibling > *core {
                all.entry(sibling).or_insert(*core);
            }
        }
    }
    all
}

/// As "0,4" or "0-1".
fn list(text: &str) -> Vec<u16> {
    let span = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?)
    };
    text.split(',').filter_map(span).flatten().collect()
}

fn stat() -> String {
    fs::read_to_string("/proc/stat").unwrap_or_default()
}

/// What each core worked (proc_stat(5)): user, nice, system, irq and softirq.
fn busy(stat: &str) -> BTreeMap<u16, Duration> {
    let core = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let core = fields.next()?.parse().ok()?;
        let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
        let worked: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum();
        let hz = rustix::param::clock_ticks_per_second().max(1);
        Some((core, Duration::from_secs_f64(worked as f64 / hz as f64)))
    };
    stat.lines().filter(|line| !line.starts_with("cpu ")).filter_map(core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_named_once_with_whose_they_are() {
        let cpus = std::env::temp_dir().join(format!("nearside-siblings-{}", std::process::id()));
        for (core, text) in [(0, "0,4\n"), (4, "0,4\n"), (1, "1,5\n"), (2, "2-3\n"), (3, "2-3\n"), (6, "6\n")] {
            let folder = cpus.join(format!("cpu{core}/topology"));
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("thread_siblings_list"), text).expect("a file");
        }
        let of = |cores: &[u16]| siblings(&cpus, cores).into_iter().collect::<Vec<_>>();
        assert_eq!(of(&[0, 2, 6]), [(3, 2), (4, 0)]);
        assert_eq!(of(&[0, 4, 1]), [(4, 0), (5, 1)], "0 and 4 are both the generator's");
        assert_eq!(of(&[6, 7]), []);
        fs::remove_dir_all(cpus).expect("it was made");
        let hz = rustix::param::clock_ticks_per_second();
        let text = format!("cpu  9 9 9 9 9 9 9\ncpu3 {hz} 0 {hz} 77 5 {hz} 0 8 9 9\nintr 5\n");
        assert_eq!(busy(&text).into_iter().collect::<Vec<_>>(), [(3, Duration::from_secs(3))]);
    }
}
