//! nginx on kernel sockets, Nearside on kernel sockets and Nearside over
//! AF_XDP on the same veth pair, asked by the same generators; and Nearside
//! over shared memory beside them. Server and generator have one core each.
//!
//! Two generators, because the slower side of a closed loop is what is
//! measured: one over kernel sockets, which costs as much as a kernel server,
//! and one on the bypass path, which leaves the limit to the server.

use super::sides;
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, Run};
use demo::field::{Ask, Field, Generator, Link, has_huge_pages};
use demo::kernel::{self, Kernel};
use demo::measure::SMALL_BODY;
use demo::stand::{Server, Stand, two_cores};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How all are asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Connections, kept alive, each with one request under way.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Milliseconds of each measurement.
    #[serde(default = "default_milliseconds")]
    pub milliseconds: u64,
    /// The nearside to measure; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

const fn default_connections() -> u32 {
    64
}

const fn default_milliseconds() -> u64 {
    3_000
}

/// Requests per second of AF_XDP versus nginx's, at least, by the generator
/// that leaves the limit to the server.
const BOUND: f64 = 4.0;

const NGINX: &str = "nginx";
/// nginx's port.
const NGINX_PORT: u16 = 80;

/// The two generators as figures name them.
const SOCKETS: &str = "kernel client";
const BYPASS: &str = "bypass client";

/// The servers of ours, in the order of arms behind nginx.
const OURS: [Link; 4] = [Link::Kernel, Link::AfXdp, Link::Memif, Link::Dpdk];

/// The experiment.
#[derive(Debug)]
pub struct Bypass {
    settings: Settings,
    stand: Result<Stand, String>,
    // nginx's own folder and namespaces are the pair that all are on.
    nginx: Option<Kernel>,
}

impl Bypass {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        if !(1..=10_000).contains(&settings.connections) || !(50..=600_000).contains(&settings.milliseconds) {
            return Err("kernel-vs-bypass: write 1 to 10,000 connections and 50 to 600,000 milliseconds".into());
        }
        let stand = match two_cores() {
            Ok(cores) => Ok(Stand::new(settings.program.as_deref(), cores)?),
            Err(why) => Err(why),
        };
        Ok(Self { settings: settings.clone(), stand, nginx: None })
    }

    /// Starts nginx, which stays idle while others are asked, at the first run.
    fn pair(&mut self, setting: &Setting) -> Result<(), Failure> {
        let stand = self.stand.as_ref().map_err(String::as_str)?;
        if self.nginx.is_none() && kernel::missing().is_none() {
            let nginx = Kernel::start(stand.folder(), stand.folder(), stand.cores, None, setting.interrupt)?;
            nginx.names().keep_to_cores(stand.cores)?;
            self.nginx = Some(nginx);
        }
        Ok(())
    }
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Bypass::new(self)?))
    }
}

impl Procedure for Bypass {
    fn arms(&self) -> Vec<Arm> {
        let conditions = |joins: &str| {
            BTreeMap::from([
                ("connections".to_owned(), format!("{}, kept alive", self.settings.connections)),
                ("response".to_owned(), format!("{} B of body", SMALL_BODY.len())),
                ("link".to_owned(), joins.to_owned()),
                ("cores".to_owned(), "one for the server, one for the generator".to_owned()),
            ])
        };
        let none = self.stand.as_ref().err().cloned();
        let program = self.stand.as_ref().map(|stand| stand.program().to_owned()).unwrap_or_default();
        let veth = none.clone().or_else(kernel::missing);
        let nginx =
            Arm { name: NGINX.to_owned(), conditions: conditions(Link::Kernel.joins()), left_out: veth.clone() };
        let ours = OURS.map(|link| {
            let on_pair = matches!(link, Link::Kernel | Link::AfXdp);
            let missing = if on_pair { veth.clone() } else { none.clone() };
            Arm {
                name: format!("Nearside, {}", link.name()),
                conditions: conditions(link.joins()),
                left_out: missing.or_else(|| link.missing(&program)),
            }
        });
        [nginx].into_iter().chain(ours).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        [BYPASS, SOCKETS].into_iter().flat_map(sides::figures).collect()
    }

    fn tools(&self) -> BTreeMap<String, String> {
        let nginx = demo::machine::find_program("nginx").and_then(|nginx| kernel::version(&nginx).ok());
        nginx.map(|version| ("nginx".to_owned(), version)).into_iter().collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            format!(
                "{SOCKETS}: nearside load over kernel sockets, one thread. {BYPASS}: nearside load over AF_XDP on the \
                 client's end of the same pair; beside it, over shared memory."
            ),
            "Each end's received packets are worked on by its own side's core (RPS), but for those that AF_XDP takes \
             before."
                .to_owned(),
            format!(
                "DPDK's packet memory: {}.",
                if has_huge_pages() {
                    "huge pages"
                } else {
                    "ordinary pages, which are slower; huge ones by echo 256 > /proc/sys/vm/nr_hugepages"
                }
            ),
            "Server CPU and busy: of ours the time with something to do by its own account, system calls included; of \
             nginx its process and softirq on its core."
                .to_owned(),
            "Where a generator is what limits, the figure is the generator's and no server's.".to_owned(),
        ]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        self.pair(setting)?;
        let stand = self.stand.as_ref().map_err(String::as_str)?;
        let names = self.nginx.as_ref().map(Kernel::names);
        let servers = [stand.cores.0];
        let field = Field { stand, veth: names, tap: None, servers: &servers, mtu: None, interrupt: setting.interrupt };
        let link = arm.checked_sub(1).map(|ours| OURS[ours]);
        let mut server = match (link, &self.nginx) {
            (Some(link), _) => field.serve(link, None)?,
            (None, Some(nginx)) => Server::other(nginx.workers()),
            (None, None) => return Err("nginx was not started".into()),
        };
        let target = (link.unwrap_or(Link::Kernel), link.is_none().then_some(NGINX_PORT));
        let (duration, connections) = (Duration::from_millis(self.settings.milliseconds), self.settings.connections);
        let mut run = Run::default();
        for generator in target.0.generators() {
            let asked = field.ask(&mut server, target, *generator, Ask::small(connections, duration))?;
            let pass = if *generator == Generator::Sockets { SOCKETS } else { BYPASS };
            sides::enter(&mut run, pass, &asked, connections, 1);
        }
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let arm = |name: &str| arms.iter().find(|arm| arm.name == name);
        let of = |name: &str, figure: &str| arm(name)?.median(figure);
        let af_xdp = format!("Nearside, {}", Link::AfXdp.name());
        let ratio = |pass: &str, figure: &str| {
            let figure = format!("{pass} {figure}");
            Some(of(&af_xdp, &figure)? / of(NGINX, &figure)?)
        };
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        let text = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}"));
        let mut checks =
            vec![Check { what: "no request fails".to_owned(), found: failed.to_string(), kept: Some(failed == 0) }];
        let rate = ratio(BYPASS, "rate");
        checks.push(Check {
            what: format!("AF_XDP: {BYPASS}: requests/s versus nginx's, at least {BOUND}"),
            found: text(rate),
            kept: rate.map(|rate| rate >= BOUND),
        });
        // Without a latency that agrees with rate and connections there is
        // nothing to claim.
        for pass in [BYPASS, SOCKETS] {
            let p99 = ratio(pass, "p99");
            checks.push(Check {
                what: format!("AF_XDP: {pass}: p99 versus nginx's at the same connections, less than 1"),
                found: text(p99),
                kept: p99.map(|p99| p99 < 1.0),
            });
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for (connections, milliseconds) in [(0, 1_000), (64, 1)] {
            assert!(Bypass::new(&Settings { connections, milliseconds, program: None }).is_err());
        }
    }
}
