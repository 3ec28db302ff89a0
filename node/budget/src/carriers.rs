//! Which ports and disks carry content, of those that there are.

use crate::cost::BudgetError;
use crate::machine::BudgetMachine;

/// A port of less than this part of the fastest's rate is there to manage the machine.
const SLOW: f64 = 0.1;

/// Which ports and disks carry content; `None`: those that are likely to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CarrierChoice {
    /// Ports, by name.
    pub ports: Option<Vec<String>>,
    /// Disks, by name.
    pub disks: Option<Vec<String>>,
}

impl BudgetMachine {
    /// The same machine with the ports and disks that carry content. Of a machine that was looked at
    /// these are, unless others are chosen, the ports that have a link of a known rate, and none much
    /// slower than the fastest; and the NVMe drives, if it has some. Each that is left out has a note.
    ///
    /// # Errors
    /// [`BudgetError::NoDevice`] for a name that there is not.
    pub fn carrying(mut self, choice: &CarrierChoice) -> Result<Self, BudgetError> {
        let chosen = |names: &Option<Vec<String>>, there: &dyn Fn(&str) -> bool| {
            let missing = names.iter().flatten().find(|name| !there(name));
            missing.map_or(Ok(()), |name| Err(BudgetError::NoDevice(name.clone())))
        };
        chosen(&choice.ports, &|name| self.ports.iter().any(|port| port.name == name))?;
        chosen(&choice.disks, &|name| self.disks.iter().any(|disk| disk.name == name))?;
        // Who writes a file names in it what carries.
        let is_seen = self.from.is_empty();
        match &choice.ports {
            Some(names) => self.ports.retain(|port| names.contains(&port.name)),
            None if is_seen => self.likely_ports(),
            None => {}
        }
        match &choice.disks {
            Some(names) => self.disks.retain(|disk| names.contains(&disk.name)),
            None if is_seen => self.likely_disks(),
            None => {}
        }
        Ok(self)
    }

    fn likely_ports(&mut self) {
        let is_up = |port: &crate::BudgetPort| port.running != Some(false);
        if !self.ports.iter().any(is_up) {
            if !self.ports.is_empty() {
                self.notes.push("no port has a link: all of them are taken to carry content (--ports)".to_owned());
            }
            return;
        }
        let rates = self.ports.iter().filter(|port| is_up(port)).filter_map(|port| port.rate);
        let fastest = rates.map(|rate| rate.bytes).fold(0.0, f64::max);
        let why = |port: &crate::BudgetPort| match port.rate {
            _ if !is_up(port) => Some("it has no link"),
            None if fastest > 0.0 => Some("the rate of its link is not known"),
            Some(rate) if rate.bytes < fastest * SLOW => Some("it is much slower than the fastest"),
            _ => None,
        };
        let out = self.ports.iter().filter_map(|port| Some((port.name.clone(), why(port)?)));
        let out: Vec<(String, &str)> = out.collect();
        self.ports.retain(|port| why(port).is_none());
        self.notes.extend(out.iter().map(|(name, why)| format!("port {name} is left out: {why} (--ports)")));
    }

    fn likely_disks(&mut self) {
        let is_nvme = |disk: &crate::BudgetDisk| disk.name.starts_with("nvme");
        if !self.disks.iter().any(is_nvme) {
            return;
        }
        let out: Vec<&str> = self.disks.iter().filter(|disk| !is_nvme(disk)).map(|disk| disk.name.as_str()).collect();
        if !out.is_empty() {
            self.notes.push(format!("disk {} is left out, beside drives of NVMe (--disks)", out.join(", ")));
        }
        self.disks.retain(is_nvme);
    }
}
