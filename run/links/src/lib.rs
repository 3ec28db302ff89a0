//! `nearside links`: the links that this machine can have, what each can do,
//! and what is missing for it.
//!
//! | module | for |
//! | --- | --- |
//! | `interfaces` | the kernel's interfaces, from sysfs below a given root |
//! | `ethtool` | what only their drivers tell: rings, channels, offloads, RSS |
//! | `rights` | what this process may do |
//! | `list` | links made of all that |

mod ethtool;
mod interfaces;
mod list;
mod rights;

pub use self::ethtool::{driver_name, settings as driver_settings};

use dpdk::Machine;
use driver::Kernel;
use host::drivers::LinkSpec;
use list::{Entry, NO_CARRIER, Survey};
use say::Failure;
use std::io::Write;
use std::path::Path;

/// Prints the links of this machine, for people or as JSON.
///
/// # Errors
/// If output cannot be written.
pub fn links(json: bool) -> Result<(), Failure> {
    let mut interfaces = interfaces::read(Path::new("/"));
    let features = stamping::features();
    for interface in &mut interfaces {
        interface.abilities = ethtool::abilities(&interface.name);
        interface.xdp = features.as_ref().and_then(|known| known.get(&interface.index).copied());
    }
    let entries = survey(interfaces).entries();
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &entries)?;
        writeln!(out)?;
    } else {
        out.write_all(table(&entries).as_bytes())?;
    }
    Ok(())
}

/// What is known of this machine, with these interfaces.
fn survey(interfaces: Vec<interfaces::Interface>) -> Survey {
    let dpdk = Some(dpdk::version()).filter(|version| !version.is_empty());
    Survey { interfaces, machine: Machine::here(), rights: rights::here(), dpdk }
}

/// What these links lack on this machine, as far as it is known before one is
/// opened; a sentence each. One that waits for its carrier lacks nothing.
pub fn lacking(links: &[LinkSpec]) -> Vec<String> {
    let entries = survey(interfaces::read(Path::new("/"))).entries();
    let there = |name: &str| Path::new("/sys/class/net").join(name).exists();
    let of = |link: &LinkSpec| {
        let name = link.name();
        let known = |name: &str| entries.iter().find(|entry| entry.link == name);
        let entry = match link.driver.kernel() {
            Kernel::Beside(interface) if !there(interface) => {
                return vec![format!("there is no interface {interface}; ip link shows those there are")];
            }
            // One that an administrator made for this user needs no right.
            Kernel::Opposite(interface) if there(interface) => None,
            // Or what all of the kind need.
            _ => known(&name).or_else(|| entries.iter().find(|entry| entry.is_any(link.kind()))),
        };
        let missing = entry.into_iter().flat_map(|entry| &entry.missing);
        missing.filter(|remedy| !remedy.what.ends_with(NO_CARRIER)).map(|remedy| format!("{name}: {remedy}")).collect()
    };
    links.iter().flat_map(of).collect()
}

const COLUMNS: usize = 7;
const HEADS: [&str; COLUMNS] = ["link", "driver", "state", "domain", "queues", "can", "ready"];

/// Lines for people: a table, and below it what each link needs.
fn table(entries: &[Entry]) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(entries.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    // What several links need is said once.
    let mut said: Vec<(&dpdk::Remedy, Vec<&str>)> = Vec::new();
    for (entry, remedy) in entries.iter().flat_map(|entry| entry.missing.iter().map(move |remedy| (entry, remedy))) {
        match said.iter_mut().find(|(known, _)| *known == remedy) {
            Some((_, links)) => links.push(&entry.link),
            None => said.push((remedy, vec![&entry.link])),
        }
    }
    for (remedy, links) in said {
        text += &format!("\n{}: {remedy}\n", links.join(", "));
    }
    text
}

fn row(entry: &Entry) -> [String; COLUMNS] {
    let dash = || "-".to_owned();
    let speed =
        entry.speed_mbps.map(|mbps| if mbps >= 1000 { format!(" {}G", mbps / 1000) } else { format!(" {mbps}M") });
    [
        entry.link.clone(),
        entry.driver.clone().unwrap_or_else(dash),
        entry.state.clone().map_or_else(dash, |state| state + &speed.unwrap_or_default()),
        entry.domain.map_or_else(dash, |domain| domain.to_string()),
        entry.queues.map_or_else(dash, |queues| queues.to_string()),
        if entry.can.is_empty() { dash() } else { entry.can.join(" ") },
        if entry.missing.is_empty() { "yes".to_owned() } else { "no".to_owned() },
    ]
}

#[cfg(test)]
mod tests;
