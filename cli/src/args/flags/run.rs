//! `nearside run`, as typed.

use ::host::values::{self, Cidr};
use clap::{Args, ValueHint};
use core::net::IpAddr;
use keeper::RunPlan;
use seats::{Subnet, Terms};
use silo::{Idle, Pace};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct RunArgs {
    /// The link that the program's connections come by: tap:NAME, af_xdp:INTERFACE or memif:PATH, with options as for
    /// serve
    #[arg(long, value_name = "LINK")]
    link: String,

    /// Our address on the link, with the length of its network's prefix; may come several times
    #[arg(long = "addr", value_name = "ADDRESS/PREFIX", required = true)]
    addresses: Vec<Cidr>,

    /// Where answers to clients of other networks go; what the program itself opens to those is the kernel's
    #[arg(long = "gateway", value_name = "ADDRESS")]
    gateways: Vec<IpAddr>,

    /// Ports whose listeners are ours; others are the kernel's [default: all that do not listen on loopback alone]
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = port)]
    ports: Vec<u16>,

    /// Workers that the program has, at most. There are seats at the link for four times as many, 32 at most, so that
    /// new workers are there while old ones have connections; a process that finds none free waits for one
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    workers: u8,

    /// What a worker's call that waits does while there is nothing to do, as for serve: adaptive,
    /// adaptive:LATENCY:WAIT, spin, spin:SPIN:WAIT, or sleep:TIME [default: adaptive]
    ///
    /// Between two calls the program has the core. While a call polls, the
    /// kernel's descriptors and signals are looked at each 20us; while it
    /// sleeps for a TIME or LATENCY, they end that, and frames do not.
    #[arg(long, value_name = "POLICY")]
    idle: Option<Idle>,

    /// Hold a worker's frames back for up to this long, so that they leave together, as for serve [default: 0]
    ///
    /// A time as in 100us, at most 100ms; a bare number is of microseconds.
    /// It ends at once when the program waits for something that is not ours
    /// or half of the room is taken. What a program leaves to compute leaves
    /// some milliseconds later at most.
    #[arg(long, value_name = "TIME", value_parser = values::micros)]
    tx_delay: Option<Duration>,

    /// The library that is preloaded [default: libnearside_preload.so beside this program, or in ../lib/nearside]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    library: Option<PathBuf>,

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

/// A port of `--ports`.
fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| "ports are numbers from 1 to 65535, with commas between them, as in 80,443".to_owned())
}

impl RunArgs {
    pub(super) fn plan(self) -> Result<RunPlan, String> {
        let mut words = self.program.into_iter();
        let program = words.next().ok_or("there is no program")?;
        if self.link.chars().any(char::is_whitespace) {
            return Err("a link has no blanks".to_owned());
        }
        values::check_gateways(&self.addresses, &self.gateways)?;
        let subnet = |cidr: &Cidr| Subnet { address: cidr.address, prefix: cidr.prefix };
        let terms = Terms {
            link: self.link,
            addresses: self.addresses.iter().map(subnet).collect(),
            gateways: self.gateways,
            ports: self.ports,
            pace: Pace { idle: self.idle.unwrap_or_default(), tx_delay: self.tx_delay.unwrap_or_default() },
        };
        Ok(RunPlan { terms, workers: self.workers, library: self.library, program, arguments: words.collect() })
    }
}

#[cfg(test)]
mod tests {
    use crate::args::joined;
    use std::ffi::OsString;

    fn refused(options: &str) -> String {
        let words = format!("nearside run --link tap:near0 --addr 10.9.0.2/24 {options} -- true");
        match crate::args::parse(words.split(' ').map(OsString::from)) {
            Err(why) => why.to_string(),
            Ok(_) => panic!("{options} is taken"),
        }
    }

    /// Ports and gateways that make no sense are told of, with what would.
    #[test]
    fn what_makes_no_sense_is_refused() {
        for ports in ["0", "80-70", "http", "", "65536"] {
            let said = refused(&format!("--ports={ports}"));
            assert!(said.contains("from 1 to 65535, with commas between them"), "{ports}: {said}");
        }
        for (gateway, why) in [
            ("10.8.0.1", "in no subnet of --addr"),
            ("fe80::1", "in no subnet of --addr"),
            ("10.9.0.2", "our own address"),
            ("10.9.0.1 --gateway 10.9.0.3", "more than one gateway"),
        ] {
            let said = refused(&format!("--gateway {gateway}"));
            assert!(said.contains(why), "{gateway}: {said}");
        }
    }

    /// What stands behind `--` is a program's that is run, and nothing of it is ours to read.
    #[test]
    fn words_of_another_program_stay_as_they_are() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let typed = words("run --workers -1 -- iperf3 -s -1");
        assert_eq!(joined(typed), words("run --workers=-1 -- iperf3 -s -1"));
    }
}
