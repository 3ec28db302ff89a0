//! What segmentation offload is worth: bulk transfers from our server over a
//! tap device to the kernel in a network namespace, with frames of up to
//! 64 KiB that the kernel takes uncut, and with segments cut and summed by
//! our stack, each of which costs a system call of its own; from our server, and from
//! nginx, unmodified, on our stack, which sends a file (sendfile).

use super::sides::{note_others, put};
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, Run};
use demo::child::Program;
use demo::machine::{find_program, is_root};
use demo::netns::Alone;
use demo::stand::{Server, Stand, two_cores, words};
use demo::unmodified::{self, RunNginx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much, and for how long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Bytes of each response.
    #[serde(default = "default_bytes")]
    pub bytes: u64,
    /// Responses that curl fetches, one after the other on one connection.
    #[serde(default = "default_fetches")]
    pub fetches: u32,
    /// Connections of our own client over kernel sockets.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Milliseconds of its measurement.
    #[serde(default = "default_milliseconds")]
    pub milliseconds: u64,
    /// The nearside to measure; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

const fn default_bytes() -> u64 {
    10_000_000
}

const fn default_fetches() -> u32 {
    50
}

const fn default_connections() -> u32 {
    4
}

const fn default_milliseconds() -> u64 {
    2_000
}

const DEVICE: &str = "near0";
const SERVER: &str = "10.79.0.2";
const KERNEL: &str = "10.79.0.1";

/// Of both clients.
const CURL: &str = "curl goodput";
const LOAD: &str = "goodput";
const FRAMES: &str = "frames";

const MEANING: [(&str, &str); 2] = [("on", "by the kernel, if at all"), ("off", "by our stack")];

/// Arms: their names, `--offload`, and whether it is nginx.
const ARMS: [(&str, &str, bool); 4] =
    [("on", "on", false), ("off", "off", false), ("nginx, on", "on", true), ("nginx, off", "off", true)];

/// The file that nginx sends.
const FILE: &str = "large.html";

/// Payload of a full segment: MTU 1500 without IPv4 and TCP headers with
/// timestamps (RFC 9293 section 3.7.1, RFC 7323 section 3.2).
const PAYLOAD: f64 = 1_448.0;

/// The experiment.
#[derive(Debug)]
pub struct Offload {
    settings: Settings,
    stand: Result<Stand, String>,
    curl: Option<String>,
}

impl Offload {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let good = (1..=1_000_000_000).contains(&settings.bytes)
            && (1..=10_000).contains(&settings.fetches)
            && (1..=1_000).contains(&settings.connections)
            && (50..=600_000).contains(&settings.milliseconds);
        if !good {
            return Err("offload: write 1 to 1,000,000,000 bytes, 1 to 10,000 fetches, 1 to 1,000 connections and 50 \
                        to 600,000 milliseconds"
                .into());
        }
        let stand = match two_cores() {
            _ if !is_root() => Err("a tap device in a namespace of its own needs root".to_owned()),
            _ if find_program("ip").is_none() => Err("ip is not installed (package iproute2)".to_owned()),
            _ if !Path::new("/dev/net/tun").exists() => Err("there is no /dev/net/tun: modprobe tun".to_owned()),
            Ok(cores) => Ok(Stand::new(settings.program.as_deref(), cores)?),
            Err(why) => Err(why),
        };
        Ok(Self { settings: settings.clone(), stand, curl: find_program("curl") })
    }

    /// nginx on our stack, whose site has a file of so many bytes.
    fn run_nginx(&self, stand: &Stand, names: &Alone, offload: &str, setting: &Setting) -> Result<Server, Failure> {
        let core = stand.cores.0;
        let configuration = unmodified::site(stand.folder(), &format!("{SERVER}:80"), &[core])?;
        let file = File::create(stand.folder().join("pages").join(FILE));
        let made = file.and_then(|file| file.set_len(self.settings.bytes));
        made.map_err(|why| format!("cannot make the file that nginx sends: {why}"))?;
        let link = format!("--link=tap:{DEVICE},addr={KERNEL}/24,offload={offload}");
        let options = [link, format!("--addr={SERVER}/24")];
        let run = RunNginx { configuration: &configuration, workers: 1, preload: None };
        Ok(stand.run_nginx((Some(names.name()), Some(core)), &options, run, setting.interrupt)?)
    }

    fn serve(&self, stand: &Stand, names: &Alone, offload: &str, setting: &Setting) -> Result<Server, Failure> {
        let mut words = words(["--respond", &self.settings.bytes.to_string(), "--idle=spin"]);
        words.push(format!("--link=tap:{DEVICE},addr={KERNEL}/24"));
        words.push(format!("--addr={SERVER}/24"));
        words.push(format!("--core={}", stand.cores.0));
        words.push(format!("--offload={offload}"));
        Ok(stand.serve(Some(names.name()), &words, setting.interrupt)?)
    }

    /// Bytes per second that curl sees.
    fn fetch(
        &self,
        (curl, is_nginx): (&str, bool),
        stand: &Stand,
        names: &Alone,
        setting: &Setting,
    ) -> Result<f64, Failure> {
        let mut words = words([curl, "-sf", "--write-out", "%{size_download} %{time_total}\\n", "--max-time", "120"]);
        for fetch in 1..=self.settings.fetches {
            words.push(format!("http://{SERVER}{}?{fetch}", path(is_nginx)));
            words.push("--output".to_owned());
            words.push("/dev/null".to_owned());
        }
        let program = Program { name: "curl", netns: Some(names.name()), core: Some(stand.cores.1), words };
        let said = program.start(stand.folder())?.finish(Duration::from_secs(300), setting.interrupt)?;
        speed(&said).ok_or_else(|| format!("curl said no speed, but:\n{said}").into())
    }
}

/// What is asked for.
fn path(is_nginx: bool) -> String {
    if is_nginx { format!("/cached/{FILE}") } else { "/".to_owned() }
}

/// Bytes ÷ time of all lines that curl wrote.
fn speed(said: &str) -> Option<f64> {
    let line = |line: &str| {
        let (bytes, seconds) = line.split_once(' ')?;
        Some((bytes.parse::<f64>().ok()?, seconds.parse::<f64>().ok()?))
    };
    let fetches = said.lines().map(line).collect::<Option<Vec<(f64, f64)>>>()?;
    let (bytes, seconds) = fetches.iter().fold((0.0, 0.0), |sum, fetch| (sum.0 + fetch.0, sum.1 + fetch.1));
    (seconds > 0.0).then_some(bytes / seconds)
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Offload::new(self)?))
    }
}

impl Procedure for Offload {
    fn arms(&self) -> Vec<Arm> {
        let conditions = BTreeMap::from([
            ("link".to_owned(), "tap into a network namespace, MTU 1500".to_owned()),
            ("response".to_owned(), format!("{} B", demo::measure::thousands(self.settings.bytes as f64))),
            ("connections".to_owned(), format!("1 of curl, {} of nearside load", self.settings.connections)),
        ]);
        let left_out = self.stand.as_ref().err().cloned();
        let arm = |(name, _, is_nginx): (&str, &str, bool)| Arm {
            name: name.to_owned(),
            conditions: conditions.clone(),
            left_out: left_out.clone().or_else(|| {
                let stand = self.stand.as_ref().ok().filter(|_| is_nginx)?;
                unmodified::missing(stand.program())
            }),
        };
        ARMS.map(arm).into()
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::higher(LOAD, "MB/s"),
            Figure::higher(CURL, "MB/s"),
            Figure::plain(FRAMES, "per MB"),
            Figure::plain("server busy", "% of its time"),
            Figure::lower("server CPU", "ms/MB"),
            Figure::plain("client CPU", "% of a core"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> =
            MEANING.iter().map(|(name, meaning)| format!("--offload {name}: segments are cut {meaning}.")).collect();
        notes.push(
            "Server CPU: its time with something to do, for each MB of bodies; it polls. nginx learns when to sleep, \
             and is busy for as long as the kernel books on it and on softirq; its frames are not counted."
                .to_owned(),
        );
        if self.curl.is_none() {
            notes.push("curl is not installed: its row is left out.".to_owned());
        }
        notes
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let stand = self.stand.as_ref().map_err(String::as_str)?;
        let names = Alone::make("tap")?;
        let (_, offload, is_nginx) = ARMS[arm];
        let mut server = match is_nginx {
            true => self.run_nginx(stand, &names, offload, setting)?,
            false => self.serve(stand, &names, offload, setting)?,
        };
        let mut words = words(["--threads=1", "--no-floor"]);
        words.insert(0, format!("http://{SERVER}{}", path(is_nginx)));
        words.push(format!("--cores={}", stand.cores.1));
        words.push(format!("--connections={}", self.settings.connections));
        let duration = Duration::from_millis(self.settings.milliseconds);
        let asked = stand.ask(&mut server, Some(names.name()), &words, duration, setting.interrupt)?;
        let mut run = Run { errors: asked.errors, ..Run::default() };
        note_others(&mut run, &asked);
        let megabytes = asked.goodput / 1e6;
        put(&mut run.figures, LOAD, megabytes);
        put(&mut run.figures, FRAMES, asked.frames_sent / megabytes);
        put(&mut run.figures, "server busy", 100.0 * asked.server_busy);
        put(&mut run.figures, "server CPU", 1e3 * asked.server_busy / megabytes);
        put(&mut run.figures, "client CPU", 100.0 * asked.client.process);
        run.details.insert("limited by".to_owned(), asked.saturated().to_owned());
        setting.progress.tell(1, 2);
        if let Some(curl) = &self.curl {
            put(&mut run.figures, CURL, self.fetch((curl, is_nginx), stand, &names, setting)? / 1e6);
        }
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let of = |arm: &str, figure: &str| arms.iter().find(|other| other.name == arm)?.median(figure);
        let ratio = |figure: &str| Some(of("on", figure)? / of("off", figure)?);
        let of_nginx = |figure: &str| Some(of("nginx, on", figure)? / of("nginx, off", figure)?);
        let check = |what: String, value: Option<f64>, keeps: &dyn Fn(f64) -> bool| Check {
            what,
            found: value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}")),
            kept: value.map(keeps),
        };
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        let cut = 1e6 / PAYLOAD;
        vec![
            check("no request fails".to_owned(), Some(failed as f64), &|failed| failed == 0.0),
            check("goodput with offload beside without, at least 1.5".to_owned(), ratio(LOAD), &|ratio| ratio >= 1.5),
            check("nginx's goodput likewise, more".to_owned(), of_nginx(LOAD), &|ratio| ratio > 1.0),
            check("curl's, at least 1.2".to_owned(), ratio(CURL), &|ratio| ratio >= 1.2),
            // Frames count when they are sent, and bodies when they are whole: the two differ at the ends of a run.
            check(
                format!("off: frames per MB, {cut:.0} full segments less 5 % at least"),
                of("off", FRAMES),
                &|frames| frames >= 0.95 * cut,
            ),
            check("on: frames beside off's, at most 0.25".to_owned(), ratio(FRAMES), &|ratio| ratio <= 0.25),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curls_fetches_are_added_up() {
        assert_eq!(speed("1000 0.5\n3000 1.5\n"), Some(2_000.0));
        assert_eq!(speed(""), None);
        assert_eq!(speed("1000\n"), None);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let settings = Settings { bytes: 0, fetches: 1, connections: 1, milliseconds: 100, program: None };
        assert!(Offload::new(&settings).map(|_| ()).expect_err("no bytes").to_string().contains("bytes"));
    }
}
