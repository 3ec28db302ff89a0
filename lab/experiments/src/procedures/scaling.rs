//! PROC × CONN: silos or workers, and connections, over every link that there
//! is on this machine; of our own server, and of nginx, unmodified, on kernel sockets
//! and on our stack.

use super::sides;
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, Run};
use demo::field::{Ask, Field, Generator, Link};
use demo::machine::{allowed_cores, find_program};
use demo::measure::SMALL_BODY;
use demo::netns::{Alone, Namespaces};
use demo::stand::{Server, Stand, two_cores};
use demo::unmodified;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Silos or workers, each on a core of its own; from one to all cores if
    /// none are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub procs: Vec<u32>,
    /// Connections, kept alive, each with one request under way.
    #[serde(default = "default_connections")]
    pub connections: Vec<u32>,
    /// Milliseconds of each cell.
    #[serde(default = "default_milliseconds")]
    pub milliseconds: u64,
    /// The nearside to measure; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

fn default_connections() -> Vec<u32> {
    vec![1, 10, 100, 1_000]
}

const fn default_milliseconds() -> u64 {
    1_000
}

/// The experiment.
#[derive(Debug)]
pub struct Scaling {
    settings: Settings,
    procs: Vec<u32>,
    cores: Vec<u16>,
    stand: Result<Stand, String>,
}

impl Scaling {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let cores = allowed_cores();
        let all = u32::try_from(cores.len()).unwrap_or(u32::MAX);
        let procs: Vec<u32> = if settings.procs.is_empty() { (1..=all).collect() } else { settings.procs.clone() };
        if procs.iter().any(|count| !(1..=all).contains(count)) {
            return Err(format!("scaling: procs: this process may use {all} cores").into());
        }
        let good = settings.connections.iter().all(|count| (1..=10_000).contains(count));
        if !good || settings.connections.is_empty() || !(50..=600_000).contains(&settings.milliseconds) {
            return Err("scaling: write connections of 1 to 10,000 and 50 to 600,000 milliseconds".into());
        }
        let stand = match two_cores() {
            // The generator has the last core, which the server takes last.
            Ok((first, _)) => {
                Ok(Stand::new(settings.program.as_deref(), (first, cores.last().copied().unwrap_or(first)))?)
            }
            Err(why) => Err(why),
        };
        Ok(Self { settings: settings.clone(), procs, cores, stand })
    }
}

impl Scaling {
    /// Of a rate, how many times that of the first row of as many connections it is.
    fn enter_factor(&self, run: &mut Run, procs: u32, connections: u32) {
        let rate = |procs: u32| run.figures.get(&format!("{} rate", cell(procs, connections))).copied();
        let factor = self.procs.first().and_then(|first| Some(rate(procs)? / rate(*first)?));
        if let Some(factor) = factor {
            sides::put_in(run, &cell(procs, connections), "factor", factor);
        }
    }
}

/// Who serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contender {
    /// Nearside.
    Ours(Link),
    /// nginx on kernel sockets.
    Nginx,
    /// The same on our stack.
    NginxOnOurs(Link),
}

/// In the order of tables.
const CONTENDERS: [Contender; 9] = [
    Contender::Ours(Link::Kernel),
    Contender::Ours(Link::AfXdp),
    Contender::Ours(Link::Tap),
    Contender::Ours(Link::Memif),
    Contender::Ours(Link::Dpdk),
    Contender::Nginx,
    Contender::NginxOnOurs(Link::AfXdp),
    Contender::NginxOnOurs(Link::Tap),
    Contender::NginxOnOurs(Link::Memif),
];

/// nginx's port on kernel sockets.
const NGINX_PORT: u16 = 80;

/// The most workers that `nearside run` has seats for.
const MOST_WORKERS: u32 = 16;

impl Contender {
    /// What its frames come by.
    const fn link(self) -> Link {
        match self {
            Self::Ours(link) | Self::NginxOnOurs(link) => link,
            Self::Nginx => Link::Kernel,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Ours(link) => link.name().to_owned(),
            Self::Nginx => "nginx".to_owned(),
            Self::NginxOnOurs(link) => format!("nginx, unmodified, on our stack, {}", link.name()),
        }
    }

    /// Why it cannot be measured here, if so.
    fn missing(self, program: &str) -> Option<String> {
        let nginx = if let Self::NginxOnOurs(_) = self { unmodified::missing(program) } else { self.lacks_nginx() };
        nginx.or_else(|| self.link().missing(program))
    }

    /// Whether it is nginx, which is not installed.
    fn lacks_nginx(self) -> Option<String> {
        let lacks = self == Self::Nginx && find_program("nginx").is_none();
        lacks.then(|| "nginx is not installed (package nginx-light)".to_owned())
    }

    fn start(self, field: &Field<'_>) -> Result<Server, Failure> {
        Ok(match self {
            Self::Ours(link) => field.serve(link, None)?,
            Self::Nginx => field.start_nginx(NGINX_PORT)?,
            Self::NginxOnOurs(link) => field.run_nginx(link)?,
        })
    }

    /// Where it is asked.
    fn target(self) -> (Link, Option<u16>) {
        (self.link(), (self == Self::Nginx).then_some(NGINX_PORT))
    }
}

fn cell(procs: u32, connections: u32) -> String {
    format!("{procs} × {connections}")
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Scaling::new(self)?))
    }
}

impl Procedure for Scaling {
    fn arms(&self) -> Vec<Arm> {
        let none = self.stand.as_ref().err().cloned();
        let program = self.stand.as_ref().map(|stand| stand.program().to_owned()).unwrap_or_default();
        let arm = |contender: Contender| Arm {
            name: contender.name(),
            conditions: BTreeMap::from([
                ("response".to_owned(), format!("{} B of body", SMALL_BODY.len())),
                ("link".to_owned(), contender.link().joins().to_owned()),
            ]),
            left_out: none.clone().or_else(|| contender.missing(&program)),
        };
        CONTENDERS.map(arm).into()
    }

    fn figures(&self) -> Vec<Figure> {
        let cells =
            self.procs.iter().flat_map(|procs| self.settings.connections.iter().map(|count| cell(*procs, *count)));
        let first = self.procs.first().copied().unwrap_or(1);
        let figures = |cell: String| {
            let factor = Figure::plain(&format!("{cell} factor"), &format!("times PROC {first}"));
            let mut figures = sides::figures(&cell);
            // Behind the rate that it is of.
            figures.insert(1, factor);
            figures
        };
        cells.flat_map(figures).collect()
    }

    fn notes(&self) -> Vec<String> {
        let all = self.cores.len();
        vec![
            "A cell is PROC × CONN: silos or workers, each on a core of its own, and connections kept alive, each with \
             one request under way."
                .to_owned(),
            "Asked over the bypass path where there is one (AF_XDP on the other end of the pair; shared memory), over \
             kernel sockets for tap; one generator, on the last core."
                .to_owned(),
            format!(
                "With {all} silos or workers the generator shares a core with the last of them; there both sleep when \
                 there is nothing to do (--idle adaptive), and poll otherwise."
            ),
            "Server busy is the average over silos or workers; what limited each cell stands above. nginx's is that of \
             its processes, and of softirq on the first core; on our stack they learn when to sleep (--idle adaptive)."
                .to_owned(),
        ]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let contender = CONTENDERS[arm];
        let link = contender.link();
        let stand = self.stand.as_ref().map_err(String::as_str)?;
        let (mut run, mut done) = (Run::default(), 0);
        let cells = (self.procs.len() * self.settings.connections.len()) as u64;
        for procs in &self.procs {
            if matches!(contender, Contender::NginxOnOurs(_)) && *procs > MOST_WORKERS {
                done += self.settings.connections.len() as u64;
                run.details.insert(format!("PROC {procs}"), format!("left out: at most {MOST_WORKERS} workers"));
                continue;
            }
            let servers = &self.cores[..*procs as usize];
            let veth = matches!(link, Link::Kernel | Link::AfXdp).then(Namespaces::make).transpose()?;
            if let Some(veth) = &veth {
                veth.keep_to_cores(stand.cores)?;
            }
            let tap = (link == Link::Tap).then(|| Alone::make("tap")).transpose()?;
            let (veth, tap) = (veth.as_ref(), tap.as_ref());
            let field = Field { stand, veth, tap, servers, mtu: None, interrupt: setting.interrupt };
            let mut server = contender.start(&field)?;
            // The one that leaves the most to the server.
            let generator = link.generators().last().copied().unwrap_or(Generator::Bypass);
            for count in &self.settings.connections {
                let duration = Duration::from_millis(self.settings.milliseconds);
                let asked = field.ask(&mut server, contender.target(), generator, Ask::small(*count, duration))?;
                sides::enter(&mut run, &cell(*procs, *count), &asked, *count, servers.len());
                self.enter_factor(&mut run, *procs, *count);
                done += 1;
                setting.progress.tell(done, cells);
            }
        }
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        let few = self.settings.connections.iter().min().copied().unwrap_or(1);
        let many = self.settings.connections.iter().max().copied().unwrap_or(1);
        let mut checks =
            vec![Check { what: "no request fails".to_owned(), found: failed.to_string(), kept: Some(failed == 0) }];
        for arm in arms.iter().filter(|arm| arm.left_out.is_none()) {
            let of = |count| arm.median(&format!("{} rate", cell(1, count)));
            let ratio = of(many).zip(of(few)).map(|(many, few)| many / few);
            checks.push(Check {
                what: format!("{}: {many} connections give more requests/s than {few}", arm.name),
                found: ratio.map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.2} times")),
                kept: ratio.map(|ratio| ratio > 1.0),
            });
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_factor_over_the_first() {
        let settings = Settings { procs: vec![1], connections: vec![10], milliseconds: 1_000, program: None };
        let Ok(mut scaling) = Scaling::new(&settings) else { return };
        scaling.procs = vec![1, 2];
        let mut run = Run::default();
        for (procs, rate) in [(1, 100.0), (2, 190.0)] {
            sides::put_in(&mut run, &cell(procs, 10), "rate", rate);
            scaling.enter_factor(&mut run, procs, 10);
        }
        assert_eq!((run.figures["1 × 10 factor"], run.figures["2 × 10 factor"]), (1.0, 1.9));
        let names: Vec<String> = scaling.figures().into_iter().map(|figure| figure.name).collect();
        assert_eq!(names[1], "1 × 10 factor");
        assert!(names.contains(&"2 × 10 CPU_s system".to_owned()), "{names:?}");
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let settings = |procs: &[u32], connections: &[u32]| Settings {
            procs: procs.to_vec(),
            connections: connections.to_vec(),
            milliseconds: 1_000,
            program: None,
        };
        for wrong in [settings(&[0], &[1]), settings(&[100_000], &[1]), settings(&[1], &[]), settings(&[1], &[0])] {
            assert!(Scaling::new(&wrong).is_err(), "{wrong:?}");
        }
    }
}
