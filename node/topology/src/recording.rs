//! The files of sysfs that say what a machine is like, as text.

use crate::TopologyError;
use core::fmt;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use sysroot::Sysroot;

/// Files by their path below the root, and what they say.
///
/// As text, a line for each: the path, a space, and the content, in which a
/// backslash and a line feed are written `\\` and `\n`. Interface names have
/// no white space in them (the kernel's `dev_valid_name`), so neither has a
/// path. Only what [`crate::Topology`] looks at is recorded: no serial number,
/// no address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    files: BTreeMap<String, String>,
}

/// No file that is recorded is longer; more is cut.
const FILE_LIMIT: u64 = 64 << 10;

/// The most files recorded, which four thousand cores and as many queues
/// do not reach.
const FILES_LIMIT: usize = 100_000;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
const NET: &str = "sys/class/net";
const BLOCK: &str = "sys/block";
const MEMINFO: &str = "proc/meminfo";
const CPUINFO: &str = "proc/cpuinfo";

/// How a PCI Express link runs, and how it could.
const LINK: [&str; 4] = ["current_link_speed", "current_link_width", "max_link_speed", "max_link_width"];

/// The file of a recording that has a device's PCI address; sysfs has it among others in `uevent`.
pub(crate) const PCI_SLOT_NAME: &str = "pci_slot_name";

/// The slot of a PCI address: `0000:3b:00.1` without the function, as all functions of a card share its link.
pub(crate) fn pci_slot(address: &str) -> Option<&str> {
    let (slot, function) = address.trim().rsplit_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (slot.split(':').count() == 3 && slot.split(':').all(is_number) && is_number(function)).then_some(slot)
}

/// How far above a block device its PCI device is looked for: a disk of SATA is
/// below a port, a host and a target.
const LEVELS: usize = 8;

impl Recording {
    /// Records the machine below `root`, which holds `sys` (and `proc`).
    ///
    /// # Errors
    /// If a file is there and cannot be read.
    pub fn take(root: &Path) -> Result<Self, TopologyError> {
        let root = Sysroot::at(root);
        let mut recorder = Recorder { root: &root, files: BTreeMap::new() };
        recorder.cores()?;
        recorder.domains()?;
        recorder.interfaces()?;
        recorder.disks()?;
        recorder.processor()?;
        Ok(Self { files: recorder.files })
    }

    /// Reads a recording's text.
    ///
    /// # Errors
    /// [`TopologyError::NotARecording`], [`TopologyError::TooMany`].
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let mut files = BTreeMap::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (at, line) in lines {
            let wrong = TopologyError::NotARecording { line: at + 1 };
            let Some((path, value)) = line.split_once(' ') else { return Err(wrong) };
            if path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..") {
                return Err(wrong);
            }
            if files.len() >= FILES_LIMIT {
                return Err(TopologyError::TooMany("files"));
            }
            files.insert(path.to_owned(), unescaped(value));
        }
        Ok(Self { files })
    }

    /// What a file says, without white space around it.
    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|text| text.trim())
    }

    /// The names in a folder, each once, ascending as text.
    pub(crate) fn names(&self, folder: &str) -> Vec<&str> {
        let start = format!("{folder}/");
        let below = self.files.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
        let mut names: Vec<&str> = below.filter_map(|(path, _)| path.get(start.len()..)?.split('/').next()).collect();
        names.dedup();
        names
    }

    /// Every file recorded, and what it says.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, text) in &self.files {
            writeln!(f, "{path} {}", text.trim_end().replace('\\', "\\\\").replace('\n', "\\n"))?;
        }
        Ok(())
    }
}

/// A value as it was before it was written on one line.
fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(char) = rest.next() {
        match char {
            '\\' => text.extend(rest.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped })),
            char => text.push(char),
        }
    }
    text
}

struct Recorder<'a> {
    root: &'a Sysroot,
    files: BTreeMap<String, String>,
}

impl Recorder<'_> {
    fn cores(&mut self) -> Result<(), TopologyError> {
        for list in ["possible", "present", "online", "isolated"] {
            self.file(&format!("{CPU}/{list}"))?;
        }
        for core in self.numbered(CPU, "cpu") {
            for file in ["topology/thread_siblings_list", "topology/physical_package_id"] {
                self.file(&format!("{CPU}/{core}/{file}"))?;
            }
            for index in self.numbered(&format!("{CPU}/{core}/cache"), "index") {
                let cache = format!("{CPU}/{core}/cache/{index}");
                self.file(&format!("{cache}/level"))?;
                self.file(&format!("{cache}/size"))?;
                // Only the outermost level is of interest; as all are few and
                // small, which it is, is for the reader to find out.
                self.file(&format!("{cache}/shared_cpu_list"))?;
            }
        }
        Ok(())
    }

    fn domains(&mut self) -> Result<(), TopologyError> {
        for node in self.numbered(NODE, "node") {
            self.file(&format!("{NODE}/{node}/cpulist"))?;
            self.file(&format!("{NODE}/{node}/distance"))?;
            self.memory(&format!("{NODE}/{node}/meminfo"))?;
        }
        self.memory(MEMINFO)
    }

    /// Records how much memory there is, of a file that tells more.
    fn memory(&mut self, path: &str) -> Result<(), TopologyError> {
        self.file(path)?;
        if let Some(text) = self.files.get_mut(path) {
            let kept = text.lines().filter(|line| line.contains("MemTotal:") || line.contains("MemFree:"));
            *text = kept.collect::<Vec<_>>().join("\n");
        }
        Ok(())
    }

    fn interfaces(&mut self) -> Result<(), TopologyError> {
        for name in self.entries(NET) {
            let interface = format!("{NET}/{name}");
            // What is no folder is `bonding_masters`.
            let queues = self.entries(&format!("{interface}/queues"));
            for queue in queues.iter().filter(|queue| queue.starts_with("rx-") || queue.starts_with("tx-")) {
                self.keep(format!("{interface}/queues/{queue}"), String::new())?;
            }
            // A virtio device has no node of its own; the PCI device that it
            // is on, one above, has.
            let device = format!("{interface}/device");
            for place in ["numa_node", "../numa_node"] {
                if let Some(text) = self.read(&format!("{device}/{place}"))? {
                    self.keep(format!("{device}/numa_node"), text)?;
                    break;
                }
            }
            if self.root.kind(&device).is_some() && !self.files.contains_key(&format!("{device}/numa_node")) {
                self.keep(format!("{device}/numa_node"), "-1".to_owned())?;
            }
            self.file(&format!("{interface}/speed"))?;
            self.file(&format!("{interface}/operstate"))?;
            let folders = ["", "/.."].map(|above| format!("{device}{above}"));
            self.link(&device, &folders)?;
            for place in ["msi_irqs", "../msi_irqs"] {
                for irq in self.entries(&format!("{device}/{place}")) {
                    self.keep(format!("{device}/msi_irqs/{irq}"), String::new())?;
                    if irq.bytes().all(|byte| byte.is_ascii_digit()) {
                        self.file(&format!("proc/irq/{irq}/smp_affinity_list"))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn disks(&mut self) -> Result<(), TopologyError> {
        for name in self.entries(BLOCK) {
            let disk = format!("{BLOCK}/{name}");
            let device = format!("{disk}/device");
            // Loops, memory, RAID and mappings have no device: their members have.
            if self.root.kind(&device).is_none() {
                continue;
            }
            for file in ["size", "queue/rotational", "device/model"] {
                self.file(&format!("{disk}/{file}"))?;
            }
            // A namespace of NVMe is below its controller, or below a subsystem of several.
            let mut folders = vec![device.clone(), format!("{device}/device")];
            let several = self.numbered(&device, "nvme");
            folders.extend(several.iter().map(|controller| format!("{device}/{controller}/device")));
            folders.extend((1..=LEVELS).map(|levels| format!("{device}{}", "/..".repeat(levels))));
            let pci = self.link(&device, &folders)?;
            let node = match pci {
                Some(folder) => self.read(&format!("{folder}/numa_node"))?,
                None => self.read(&format!("{device}/numa_node"))?,
            };
            self.keep(format!("{device}/numa_node"), node.unwrap_or_else(|| "-1".to_owned()))?;
        }
        Ok(())
    }

    /// Records the PCI Express link of a device, which is in the first of `folders` that is a PCI
    /// device's; returns that one.
    fn link<'f>(&mut self, device: &str, folders: &'f [String]) -> Result<Option<&'f str>, TopologyError> {
        for folder in folders {
            // Of those above a device only PCI devices have a class in their folder.
            let Some(class) = self.read(&format!("{folder}/class"))? else { continue };
            self.keep(format!("{device}/class"), class)?;
            for file in LINK {
                if let Some(text) = self.read(&format!("{folder}/{file}"))? {
                    self.keep(format!("{device}/{file}"), text)?;
                }
            }
            // The port that it is plugged into is the device above.
            for file in &LINK[2..] {
                for above in ["upstream", ".."] {
                    if let Some(text) = self.read(&format!("{folder}/{above}/{file}"))? {
                        self.keep(format!("{device}/upstream/{file}"), text)?;
                        break;
                    }
                }
            }
            if let Some(address) = self.pci_address(device, folder)? {
                self.keep(format!("{device}/{PCI_SLOT_NAME}"), address)?;
            }
            return Ok(Some(folder));
        }
        Ok(None)
    }

    /// The address of a PCI device, as its events name it, or else as its folder is called; a folder
    /// that was made from a recording has it as that does.
    fn pci_address(&self, device: &str, folder: &str) -> Result<Option<String>, TopologyError> {
        let events = self.read(&format!("{folder}/uevent"))?;
        let named =
            events.and_then(|text| Some(text.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME="))?.to_owned()));
        if named.is_some() {
            return Ok(named);
        }
        let target = self.root.link(folder).ok();
        let last = target.and_then(|target| Some(target.rsplit('/').next()?.to_owned()));
        match last.filter(|name| pci_slot(name).is_some()) {
            Some(name) => Ok(Some(name)),
            None => self.read(&format!("{device}/{PCI_SLOT_NAME}")),
        }
    }

    /// Records which processor it is: what the first core says.
    fn processor(&mut self) -> Result<(), TopologyError> {
        let Some(text) = self.read(CPUINFO)? else { return Ok(()) };
        let line = |name: &str| text.lines().find(|line| line.starts_with(name));
        let kept: Vec<&str> = ["vendor_id", "model name"].into_iter().filter_map(line).collect();
        if kept.is_empty() { Ok(()) } else { self.keep(CPUINFO.to_owned(), kept.join("\n")) }
    }

    /// Records a file, if it is there.
    fn file(&mut self, path: &str) -> Result<(), TopologyError> {
        match self.read(path)? {
            Some(text) => self.keep(path.to_owned(), text),
            None => Ok(()),
        }
    }

    fn keep(&mut self, path: String, text: String) -> Result<(), TopologyError> {
        if self.files.len() >= FILES_LIMIT {
            return Err(TopologyError::TooMany("files"));
        }
        self.files.insert(path, text);
        Ok(())
    }

    fn read(&self, path: &str) -> Result<Option<String>, TopologyError> {
        match self.root.text(path, FILE_LIMIT) {
            Ok(text) => Ok(Some(text)),
            // A virtual device refuses to say (EINVAL), and what goes away
            // while it is read says ENODEV: as if it were not there.
            Err(why) if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(why) if why.kind() == io::ErrorKind::InvalidInput || why.raw_os_error() == Some(ENODEV) => Ok(None),
            Err(why) => Err(TopologyError::Io(self.root.shown(path), why)),
        }
    }

    /// The names in a folder; none if it cannot be read.
    fn entries(&self, folder: &str) -> Vec<String> {
        let mut names = self.root.names(folder).unwrap_or_default();
        // What could not be told apart from a path's end is not recorded.
        names.retain(|name| !name.contains(char::is_whitespace));
        names
    }

    /// The names in a folder that are `prefix` and a number.
    fn numbered(&self, folder: &str, prefix: &str) -> Vec<String> {
        let mut names = self.entries(folder);
        names.retain(|name| {
            let digits = name.strip_prefix(prefix).unwrap_or_default();
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        names
    }
}

/// "No such device", the same number on every architecture.
const ENODEV: i32 = 19;
