//! nginx on kernel sockets, Nearside on kernel sockets and Nearside over
//! AF_XDP on the same veth pair, asked by the same generators; and Nearside
//! over shared memory beside them; and nginx, unmodified, on our stack over both
//! of these links. Server and generator have one core each.
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
use demo::measure::{FILE_BYTES, SMALL_BODY};
use demo::stand::{Server, Stand, two_cores};
use demo::unmodified::{self, Served};
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
    /// What is asked for. All but `return` by the generator alone that leaves the most to
    /// the server, and of all servers by one nginx.conf.
    #[serde(default = "default_contents")]
    pub contents: Vec<ServedContent>,
    /// The nearside to measure; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

/// What a server has to do for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServedContent {
    /// A text from memory.
    Return,
    /// A file that nginx opens for each request.
    File,
    /// The same with open_file_cache.
    CachedFile,
    /// The same, compressed for each request (gzip on).
    Gzip,
}

impl ServedContent {
    const fn served(self) -> Served {
        match self {
            Self::Return => Served::Return,
            Self::File => Served::File,
            Self::CachedFile => Served::CachedFile,
            Self::Gzip => Served::Gzip,
        }
    }

    /// How its figures are named, with the generator that has them.
    fn pass(self, generator: &str) -> String {
        match self {
            Self::Return => generator.to_owned(),
            Self::File => format!("file, {generator}"),
            Self::CachedFile => format!("cached file, {generator}"),
            Self::Gzip => format!("gzip, {generator}"),
        }
    }

    /// Who asks for it of a server behind this link.
    fn generators(self, link: Link) -> &'static [Generator] {
        let all = link.generators();
        if self == Self::Return { all } else { &all[all.len().saturating_sub(1)..] }
    }
}

fn default_contents() -> Vec<ServedContent> {
    vec![ServedContent::Return]
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
/// That of whoever serves files over the pair by the kernel.
const SITE_PORT: u16 = 8_001;

/// The two generators as figures name them.
const SOCKETS: &str = "kernel client";
const BYPASS: &str = "bypass client";

/// Who serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contender {
    /// nginx on kernel sockets.
    Nginx,
    /// Nearside.
    Ours(Link),
    /// nginx, unmodified, on our stack.
    NginxOnOurs(Link),
}

/// In the order of arms.
const CONTENDERS: [Contender; 7] = [
    Contender::Nginx,
    Contender::NginxOnOurs(Link::AfXdp),
    Contender::NginxOnOurs(Link::Memif),
    Contender::Ours(Link::Kernel),
    Contender::Ours(Link::AfXdp),
    Contender::Ours(Link::Memif),
    Contender::Ours(Link::Dpdk),
];

impl Contender {
    /// What its frames come by.
    const fn link(self) -> Link {
        match self {
            Self::Nginx => Link::Kernel,
            Self::Ours(link) | Self::NginxOnOurs(link) => link,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Nginx => NGINX.to_owned(),
            Self::Ours(link) => format!("Nearside, {}", link.name()),
            Self::NginxOnOurs(link) => format!("nginx, unmodified, on our stack, {}", link.name()),
        }
    }

    /// Where it is asked, its link and its port.
    fn target(self) -> (Link, Option<u16>) {
        (self.link(), (self == Self::Nginx).then_some(NGINX_PORT))
    }
}

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
        if settings.contents.is_empty() {
            return Err("kernel-vs-bypass: contents: write at least one of return, file, cached-file and gzip".into());
        }
        let stand = match two_cores() {
            Ok(cores) => Ok(Stand::new(settings.program.as_deref(), cores)?),
            Err(why) => Err(why),
        };
        Ok(Self { settings: settings.clone(), stand, nginx: None })
    }

    /// Starts what serves a content.
    fn serve(&self, field: &Field<'_>, contender: Contender, content: ServedContent) -> Result<Server, Failure> {
        Ok(match (contender, content) {
            (Contender::Nginx, ServedContent::Return) => {
                Server::other(self.nginx.as_ref().ok_or("nginx was not started")?.workers())
            }
            // Beside the other one, which stays idle.
            (Contender::Nginx, _) => field.start_nginx(SITE_PORT)?,
            (Contender::Ours(link), ServedContent::Return) => field.serve(link, None)?,
            (Contender::Ours(link), _) => field.serve_site(link, SITE_PORT)?,
            (Contender::NginxOnOurs(link), _) => field.run_nginx(link)?,
        })
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

/// Requests per second of nginx on our stack versus nginx's own on kernel sockets, at least: over
/// AF_XDP, where both are on one pair, and over memif by what is asked for.
const UNMODIFIED: [(Link, ServedContent, f64); 4] = [
    (Link::AfXdp, ServedContent::Return, 2.3),
    (Link::Memif, ServedContent::Return, 4.5),
    (Link::Memif, ServedContent::CachedFile, 3.3),
    (Link::Memif, ServedContent::File, 2.0),
];

impl Bypass {
    /// What nginx on our stack is held against: itself on the kernel's sockets.
    fn of_unmodified(&self, arms: &[ArmResults]) -> Vec<Check> {
        let rate = |name: &str, pass: &str| arms.iter().find(|arm| arm.name == name)?.median(&format!("{pass} rate"));
        let asked = UNMODIFIED.iter().filter(|(_, content, _)| self.settings.contents.contains(content));
        let check = |(link, content, bound): &(Link, ServedContent, f64)| {
            let (name, pass) = (Contender::NginxOnOurs(*link).name(), content.pass(BYPASS));
            let ratio = rate(&name, &pass).zip(rate(NGINX, &pass)).map(|(ours, kernels)| ours / kernels);
            Check {
                what: format!("{name}: {pass}: requests/s versus its own on kernel sockets, at least {bound}"),
                found: ratio.map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.2}")),
                kept: ratio.map(|ratio| ratio >= *bound),
            }
        };
        asked.map(check).collect()
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
                ("response".to_owned(), format!("{} B of body; files of {FILE_BYTES} B", SMALL_BODY.len())),
                ("link".to_owned(), joins.to_owned()),
                ("cores".to_owned(), "one for the server, one for the generator".to_owned()),
            ])
        };
        let none = self.stand.as_ref().err().cloned();
        let program = self.stand.as_ref().map(|stand| stand.program().to_owned()).unwrap_or_default();
        let veth = none.clone().or_else(kernel::missing);
        let arm = |contender: Contender| {
            let link = contender.link();
            let on_pair = matches!(link, Link::Kernel | Link::AfXdp);
            let missing = if on_pair { veth.clone() } else { none.clone() };
            let nginx = if let Contender::NginxOnOurs(_) = contender { unmodified::missing(&program) } else { None };
            let of_link = || if contender == Contender::Nginx { None } else { link.missing(&program) };
            Arm {
                name: contender.name(),
                conditions: conditions(link.joins()),
                left_out: missing.or(nginx).or_else(of_link),
            }
        };
        CONTENDERS.map(arm).into()
    }

    fn figures(&self) -> Vec<Figure> {
        let passes = self.settings.contents.iter().flat_map(|content| match content {
            ServedContent::Return => vec![BYPASS.to_owned(), SOCKETS.to_owned()],
            other => vec![other.pass(BYPASS)],
        });
        passes.flat_map(|pass| sides::figures(&pass)).collect()
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
            "nginx, unmodified, on our stack: nearside run, whose workers learn when to sleep (--idle adaptive); files \
             and gzip by the same nginx.conf from all, compressed from open_file_cache."
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
        let contender = CONTENDERS[arm];
        let (duration, connections) = (Duration::from_millis(self.settings.milliseconds), self.settings.connections);
        let mut run = Run::default();
        let all = self.settings.contents.len() as u64;
        for (done, content) in (0..).zip(&self.settings.contents) {
            setting.progress.tell(done, all);
            let mut server = self.serve(&field, contender, *content)?;
            let (link, port) = contender.target();
            let is_site = link == Link::Kernel && *content != ServedContent::Return;
            let target = (link, if is_site { Some(SITE_PORT) } else { port });
            let more = content.served().options();
            let ask = Ask { path: content.served().path(), more: &more, ..Ask::small(connections, duration) };
            for generator in content.generators(link) {
                let asked = field.ask(&mut server, target, *generator, ask)?;
                let pass = content.pass(if *generator == Generator::Sockets { SOCKETS } else { BYPASS });
                sides::enter(&mut run, &pass, &asked, connections, 1);
            }
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
        checks.extend(self.of_unmodified(arms));
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
        let settings = |connections, milliseconds, contents: &[ServedContent]| Settings {
            connections,
            milliseconds,
            contents: contents.to_vec(),
            program: None,
        };
        let one = [ServedContent::Return];
        for wrong in [settings(0, 1_000, &one), settings(64, 1, &one), settings(64, 1_000, &[])] {
            assert!(Bypass::new(&wrong).is_err(), "{wrong:?}");
        }
    }

    /// An experiment whose settings ask for these, and which runs nothing.
    fn experiment(contents: &[ServedContent]) -> Bypass {
        let settings = Settings { connections: 64, milliseconds: 1_000, contents: contents.to_vec(), program: None };
        Bypass { settings, stand: Err("nothing is run".to_owned()), nginx: None }
    }

    #[test]
    fn each_content_has_figures_of_its_own() {
        let all = [ServedContent::Return, ServedContent::File, ServedContent::CachedFile, ServedContent::Gzip];
        let names: Vec<String> = experiment(&all).figures().into_iter().map(|figure| figure.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name} is there twice");
        }
        for name in ["bypass client rate", "kernel client rate", "file, bypass client rate", "gzip, bypass client p99"]
        {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        let arms = experiment(&all).arms();
        let unmodified = arms.iter().filter(|arm| arm.name.starts_with("nginx, unmodified, on our stack, "));
        assert_eq!((arms.len(), unmodified.count()), (CONTENDERS.len(), 2));
        // Each is asked by who leaves the most to the server.
        for content in all {
            assert_eq!(content.generators(Link::AfXdp).last(), Some(&Generator::Bypass));
            assert_eq!(content.generators(Link::AfXdp).len(), if content == ServedContent::Return { 2 } else { 1 });
        }
    }

    #[test]
    fn nginx_on_our_stack_is_held_against_nginx() {
        let arm = |contender: Contender, rate: f64| ArmResults {
            name: contender.name(),
            repeats: None,
            conditions: BTreeMap::new(),
            left_out: None,
            runs: vec![Run { figures: BTreeMap::from([("bypass client rate".to_owned(), rate)]), ..Run::default() }],
        };
        let arms = [
            arm(Contender::Nginx, 100_000.0),
            arm(Contender::NginxOnOurs(Link::AfXdp), 240_000.0),
            arm(Contender::NginxOnOurs(Link::Memif), 400_000.0),
        ];
        let found = experiment(&[ServedContent::Return, ServedContent::File]).of_unmodified(&arms);
        let kept: Vec<Option<bool>> = found.iter().map(|check| check.kept).collect();
        assert_eq!(kept, [Some(true), Some(false), None], "{found:?}");
    }
}
