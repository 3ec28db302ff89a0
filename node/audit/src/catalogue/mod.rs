//! Every rule there is, by area.

mod beside;
mod command_line;
mod commands;
mod driver;
mod groups;
mod interrupts;
mod kernel;
mod memory;
mod network;
mod nginx;
mod nic;
mod pod;
mod processor;
mod profile;
mod services;
mod slot;
mod tcp;
mod tcp_limits;

pub(crate) use nginx::with_fstack;
pub(crate) use profile::repeated;

use crate::Rule;

/// The catalogue's tables.
const TABLES: [&[Rule]; 17] = [
    network::RULES,
    tcp::RULES,
    tcp_limits::RULES,
    memory::RULES,
    kernel::RULES,
    processor::RULES,
    interrupts::RULES,
    nic::RULES,
    driver::RULES,
    slot::RULES,
    command_line::RULES,
    commands::RULES,
    services::RULES,
    beside::RULES,
    profile::RULES,
    pod::RULES,
    nginx::RULES,
];

/// Every rule, in the order of areas.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The rule of this name. A sysctl may be written with slashes, and one of
/// interfaces with any interface's name in it.
#[must_use]
pub fn find(key: &str) -> Option<&'static Rule> {
    let dotted = if key.contains('.') { key.to_owned() } else { key.replace('/', ".") };
    let any_interface = any_interface(&dotted);
    let names = [key, dotted.as_str(), any_interface.as_str()];
    rules().find(|rule| names.contains(&rule.key))
}

/// `net.ipv4.conf.eth0.rp_filter` as `net.ipv4.conf.*.rp_filter`: the setting
/// that all interfaces have.
fn any_interface(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        [net @ "net", family, group @ ("conf" | "neigh"), _, name] => {
            format!("{net}.{family}.{group}.*.{name}")
        }
        _ => key.to_owned(),
    }
}
