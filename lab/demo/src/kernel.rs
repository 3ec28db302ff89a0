//! nginx on kernel sockets, driven by wrk: over a veth pair between two
//! network namespaces, each program on a core of its own.

use crate::child::{Interrupt, Program, Running, call};
use crate::error::Error;
use crate::machine::{children, find_program, is_root};
use crate::measure::{Connections, Content, Latency, Measurement, PERCENTILES, SMALL_BODY, Scenario, watch_cpu};
use crate::netns::{Namespaces, SERVER};
use serde::Deserialize;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// nginx, ready to be asked.
#[derive(Debug)]
pub struct Kernel {
    // Dropped in this order: nginx ends before its namespace goes.
    nginx: Running,
    names: Namespaces,
    workers: Vec<u32>,
    cores: (u16, u16),
    wrk: String,
    dir: PathBuf,
    script: PathBuf,
    /// nginx's version, as it says it.
    pub version: String,
    congestion: Option<String>,
}

/// Why nginx is left out, or that it can be measured.
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("making network namespaces needs root".to_owned());
    }
    let absent = |name: &&str| find_program(name).is_none();
    let lacking: Vec<&str> = ["nginx", "wrk", "ip", "ss"].into_iter().filter(absent).collect();
    if !lacking.is_empty() {
        return Some(format!("not installed: {} (packages nginx-light, wrk, iproute2)", lacking.join(", ")));
    }
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let cubic = known.split_ascii_whitespace().any(|name| name == "cubic");
    (!cubic).then(|| "this kernel has no CUBIC".to_owned())
}

impl Kernel {
    /// Makes the namespaces and starts nginx with `site` as its root, with a
    /// library loaded before all others if one is named (`LD_PRELOAD`).
    pub fn start(
        dir: &Path,
        site: &Path,
        cores: (u16, u16),
        preload: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let program = |name: &str| find_program(name).ok_or_else(|| Error::Machine(format!("{name} is not installed")));
        let (nginx, wrk) = (program("nginx")?, program("wrk")?);
        let version = version(&nginx)?;
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            fs::write(&path, text).map_err(Error::io(format!("cannot write {}", path.display()))).map(|()| path)
        };
        let list: Vec<String> = PERCENTILES.iter().map(f64::to_string).collect();
        let script = write("wrk.lua", include_str!("wrk.lua").replace("PERCENTILES", &list.join(", ")))?;
        let config = write("nginx.conf", configuration(dir, site))?;
        // nginx's worker runs under a user of its own, who must get to the site.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(Error::io("cannot open the folder"))?;

        let names = Namespaces::make()?;
        let mut words: Vec<String> = preload.map(text).map(|file| format!("LD_PRELOAD={file}")).into_iter().collect();
        words.extend([&nginx, "-e", "stderr", "-p", &text(dir), "-c", &text(&config)].map(str::to_owned));
        if preload.is_some() {
            words.insert(0, "env".to_owned());
        }
        let start = Program { name: "nginx", netns: Some(&names.server), core: Some(cores.0), words };
        let mut nginx = start.start(dir)?;
        let master = nginx.pid();
        nginx.wait_until("start its worker", Duration::from_secs(5), interrupt, || !children(master).is_empty())?;
        let mut kernel = Self {
            workers: children(master),
            nginx,
            names,
            cores,
            wrk,
            dir: dir.to_owned(),
            script,
            version,
            congestion: None,
        };
        kernel.wait_until_served(interrupt)?;
        Ok(kernel)
    }

    /// The congestion control seen on nginx's connections.
    pub fn congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or("not seen")
    }

    /// The processes that answer.
    #[must_use]
    pub fn workers(&self) -> &[u32] {
        &self.workers
    }

    fn wait_until_served(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        let address: Ipv4Addr = SERVER.parse().map_err(|_| Error::Machine("the server's address".to_owned()))?;
        let client = self.names.client.clone();
        let url = format!("http://{address}/small");
        let fetch = || call(&["ip", "netns", "exec", &client, "curl", "-sf", "--max-time", "1", &url]).is_ok();
        if find_program("curl").is_none() {
            return interrupt.sleep(Duration::from_millis(500));
        }
        self.nginx.wait_until("answer", Duration::from_secs(5), interrupt, fetch)
    }

    /// Asks nginx for `duration`, after a second that is not counted.
    pub fn measure(
        &mut self,
        scenario: Scenario,
        duration: Duration,
        interrupt: &Interrupt,
    ) -> Result<Measurement, Error> {
        let second = Duration::from_secs(1);
        self.load(scenario, second, interrupt)?.finish(second + Duration::from_secs(20), interrupt)?;
        let mut wrk = self.load(scenario, duration, interrupt)?;
        if self.congestion.is_none() && scenario.connections == Connections::KeepAlive {
            interrupt.sleep(Duration::from_millis(100))?;
            self.congestion = self.names.congestion_control()?;
        }
        let (server, client) = watch_cpu(&self.workers, &wrk, self.cores, Duration::ZERO, duration, interrupt)?;
        let output = wrk.finish(duration + Duration::from_secs(20), interrupt)?;
        self.nginx.still_runs()?;
        let report = parse(&output)?;
        Ok(Measurement {
            requests_per_second: report.requests as f64 * 1e6 / report.microseconds.max(1) as f64,
            response_bytes: report.bytes as f64 / report.requests.max(1) as f64,
            latency: Latency { curve: report.percentiles, max: report.max },
            errors: report.errors,
            server,
            client,
            warnings: Vec::new(),
        })
    }

    /// Starts wrk for so long.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn load(&self, scenario: Scenario, duration: Duration, interrupt: &Interrupt) -> Result<Running, Error> {
        interrupt.check()?;
        let path = match scenario.content {
            Content::Small => "small",
            Content::File => "page.html",
        };
        self.ask(&format!("http://{SERVER}/{path}"), scenario.connections, scenario.count, duration)
    }

    /// The namespaces that nginx and wrk are in.
    #[must_use]
    pub fn names(&self) -> &Namespaces {
        &self.names
    }

    /// Starts wrk, which asks for `url` on so many connections for so long.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn ask(&self, url: &str, connections: Connections, count: u32, duration: Duration) -> Result<Running, Error> {
        let mut words = vec![self.wrk.clone(), "--threads=1".to_owned()];
        words.push(format!("--connections={count}"));
        words.push(format!("--duration={}s", duration.as_secs()));
        words.push("--timeout=10s".to_owned());
        words.push(format!("--script={}", text(&self.script)));
        if connections == Connections::New {
            words.push("--header=Connection: close".to_owned());
        }
        words.push(url.to_owned());
        let program = Program { name: "wrk", netns: Some(&self.names.client), core: Some(self.cores.1), words };
        program.start(&self.dir)
    }
}

/// What the script prints.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct WrkReport {
    /// Answered requests.
    pub requests: u64,
    /// How long they took together.
    pub microseconds: u64,
    /// Bytes of the answers.
    pub bytes: u64,
    /// Requests and connections that failed.
    pub errors: u64,
    /// The longest latency, µs.
    pub max: f64,
    /// The latency at each of [`PERCENTILES`], µs.
    pub percentiles: Vec<f64>,
}

/// Reads what wrk printed.
///
/// # Errors
/// If it answered nothing, or did not run to its end.
pub fn parse(output: &str) -> Result<WrkReport, Error> {
    let line = output.lines().rfind(|line| line.starts_with('{'));
    let report: Option<WrkReport> = line.and_then(|line| serde_json::from_str(line).ok());
    let complete = report.filter(|report| report.percentiles.len() == PERCENTILES.len() && report.requests > 0);
    complete.ok_or_else(|| Error::output("wrk", "answered requests"))
}

/// A configuration that lets nginx do its best here: no log, files kept
/// open, no limit on requests of a connection.
fn configuration(dir: &Path, site: &Path) -> String {
    let (dir, site) = (text(dir), text(site));
    format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid {dir}/nginx.pid;
events {{ worker_connections 32768; multi_accept on; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    open_file_cache max=64;
    open_file_cache_valid 60s;
    client_body_temp_path {dir}/nginx-body;
    proxy_temp_path {dir}/nginx-proxy;
    fastcgi_temp_path {dir}/nginx-fastcgi;
    uwsgi_temp_path {dir}/nginx-uwsgi;
    scgi_temp_path {dir}/nginx-scgi;
    types {{ text/html html; }}
    default_type text/plain;
    server {{
        listen {SERVER}:80 backlog=65535;
        root {site};
        location = /small {{ return 200 \"{SMALL_BODY}\"; }}
    }}
}}
"
    )
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The version of an nginx, which says it on standard error.
///
/// # Errors
/// If it cannot be run.
pub fn version(nginx: &str) -> Result<String, Error> {
    let said = call(&["sh", "-c", &format!("{nginx} -v 2>&1")])?;
    Ok(said.trim().rsplit('/').next().unwrap_or("unknown").to_owned())
}
