//! nginx on kernel sockets, one or two of it, driven by wrk: over a veth pair
//! between two network namespaces, each program on a core of its own.

use crate::child::{Interrupt, Program, Running, call};
use crate::error::Error;
use crate::machine::{children, find_program, is_root};
use crate::measure::{Connections, Heads, Latency, Measurement, PERCENTILES, SMALL_BODY, Scenario, watch_cpu};
use crate::netns::{Namespaces, SERVER};
use crate::results::Nginx;
use crate::stand::START;
use serde::Deserialize;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// nginx, ready to be asked.
#[derive(Debug)]
pub struct Kernel {
    // Dropped in this order: nginx ends before its namespace goes.
    servers: Vec<Instance>,
    names: Namespaces,
    cores: (u16, u16),
    wrk: String,
    dir: PathBuf,
    site: PathBuf,
    /// The first nginx's version, as it says it.
    pub version: String,
    congestion: Option<String>,
}

/// One nginx that runs.
#[derive(Debug)]
struct Instance {
    running: Running,
    workers: Vec<u32>,
    known: Nginx,
}

/// The first nginx's port; the others' follow.
pub const FIRST_PORT: u16 = 80;

/// As many nginx may be measured side by side.
pub const MOST_NGINX: usize = 2;

/// Clients that wrk's script stands for: as many as there are connections at
/// most.
const USERS: u32 = 1_000;

/// Why nginx is left out, or that it can be measured.
pub fn missing() -> Option<String> {
    let absent = || Some("not installed: nginx (package nginx-light)".to_owned());
    no_pair().or_else(|| if find_program("nginx").is_none() { absent() } else { None })
}

/// Why kernel sockets over a veth pair cannot be asked by wrk here, or that
/// they can.
pub(crate) fn no_pair() -> Option<String> {
    if !is_root() {
        return Some("making network namespaces needs root".to_owned());
    }
    let absent = |name: &&str| find_program(name).is_none();
    let lacking: Vec<&str> = ["wrk", "ip", "ss"].into_iter().filter(absent).collect();
    if !lacking.is_empty() {
        return Some(format!("not installed: {} (packages wrk, iproute2)", lacking.join(", ")));
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
        let nginx = find_program("nginx").ok_or_else(|| Error::Machine("nginx is not installed".to_owned()))?;
        let known = Nginx { version: version(&nginx)?, path: nginx };
        let mut kernel = Self::make(&known, dir, site, cores)?;
        kernel.add(known, preload, interrupt)?;
        Ok(kernel)
    }

    /// As [`Self::start`], with these nginx.
    ///
    /// # Errors
    /// If one of them cannot be started, or there is none.
    pub fn with(
        known: &[Nginx],
        dir: &Path,
        site: &Path,
        cores: (u16, u16),
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let first = known.first().ok_or_else(|| Error::Machine("nginx is not installed".to_owned()))?;
        let mut kernel = Self::make(first, dir, site, cores)?;
        known.iter().try_for_each(|nginx| kernel.add(nginx.clone(), None, interrupt))?;
        Ok(kernel)
    }

    fn make(first: &Nginx, dir: &Path, site: &Path, cores: (u16, u16)) -> Result<Self, Error> {
        let wrk = find_program("wrk").ok_or_else(|| Error::Machine("wrk is not installed".to_owned()))?;
        // nginx's worker runs under a user of its own, who must get to the site.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(Error::io("cannot open the folder"))?;
        Ok(Self {
            servers: Vec::new(),
            names: Namespaces::make()?,
            cores,
            wrk,
            dir: dir.to_owned(),
            site: site.to_owned(),
            version: first.version.clone(),
            congestion: None,
        })
    }

    fn add(&mut self, known: Nginx, preload: Option<&Path>, interrupt: &Interrupt) -> Result<(), Error> {
        let at = self.servers.len();
        let dir = self.dir.join(format!("nginx-{at}"));
        fs::create_dir_all(&dir).map_err(Error::io("cannot make a folder for nginx"))?;
        let config = self.write(&format!("nginx-{at}.conf"), &configuration(&dir, &self.site, port(at)))?;
        let mut words: Vec<String> = preload.map(text).map(|file| format!("LD_PRELOAD={file}")).into_iter().collect();
        words.extend([&known.path, "-e", "stderr", "-p", &text(&dir), "-c", &text(&config)].map(str::to_owned));
        if preload.is_some() {
            words.insert(0, "env".to_owned());
        }
        let name = if at == 0 { "nginx".to_owned() } else { format!("nginx {}", known.version) };
        let start = Program { name: &name, netns: Some(&self.names.server), core: Some(self.cores.0), words };
        let mut running = start.start(&self.dir)?;
        let master = running.pid();
        running.wait_until("start its worker", Duration::from_secs(5), interrupt, || !children(master).is_empty())?;
        self.servers.push(Instance { workers: children(master), running, known });
        self.wait_until_served(at, interrupt)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(Error::io(format!("cannot write {}", path.display()))).map(|()| path)
    }

    /// Each nginx that runs.
    #[must_use]
    pub fn known(&self) -> Vec<Nginx> {
        self.servers.iter().map(|server| server.known.clone()).collect()
    }

    /// The first nginx's configuration, with its folders named for what they
    /// are.
    #[must_use]
    pub fn configuration(&self) -> String {
        configuration(Path::new("SCRATCH"), Path::new("SITE"), FIRST_PORT)
    }

    /// The congestion control seen on nginx's connections.
    pub fn congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or("not seen")
    }

    /// The processes of the first nginx that answer.
    #[must_use]
    pub fn workers(&self) -> &[u32] {
        self.workers_of(0)
    }

    /// The processes of one of them that answer.
    #[must_use]
    pub fn workers_of(&self, at: usize) -> &[u32] {
        self.servers.get(at).map_or(&[], |server| server.workers.as_slice())
    }

    fn wait_until_served(&mut self, at: usize, interrupt: &Interrupt) -> Result<(), Error> {
        let address: Ipv4Addr = SERVER.parse().map_err(|_| Error::Machine("the server's address".to_owned()))?;
        let client = self.names.client.clone();
        let url = format!("http://{address}:{}/small", port(at));
        let fetch = || call(&["ip", "netns", "exec", &client, "curl", "-sf", "--max-time", "1", &url]).is_ok();
        if find_program("curl").is_none() {
            return interrupt.sleep(Duration::from_millis(500));
        }
        match self.servers.get_mut(at) {
            Some(server) => server.running.wait_until("answer", Duration::from_secs(5), interrupt, fetch),
            None => Ok(()),
        }
    }

    /// Asks one nginx by wrk for `duration`, which wrk takes in whole seconds:
    /// rounded up. Before it for a second that is not counted, if that is wanted.
    ///
    /// # Errors
    /// If it is not answered.
    pub fn measure(
        &mut self,
        at: usize,
        scenario: Scenario,
        warm_up: bool,
        duration: Duration,
        interrupt: &Interrupt,
    ) -> Result<Measurement, Error> {
        let second = Duration::from_secs(1);
        let duration = Duration::from_secs(duration.as_nanos().div_ceil(second.as_nanos()) as u64);
        if warm_up {
            self.load_at(at, scenario, second, interrupt)?.finish(second + Duration::from_secs(20), interrupt)?;
        }
        let mut wrk = self.load_at(at, scenario, duration, interrupt)?;
        if self.congestion.is_none() && scenario.connections == Connections::KeepAlive {
            interrupt.sleep(Duration::from_millis(100))?;
            self.congestion = self.names.congestion_control()?;
        }
        let (server, client) = watch_cpu(self.workers_of(at), &wrk, self.cores, Duration::ZERO, duration, interrupt)?;
        let output = wrk.finish(duration + Duration::from_secs(20), interrupt)?;
        self.servers.iter_mut().try_for_each(|server| server.running.still_runs())?;
        let report = parse(&output)?;
        Ok(Measurement {
            requests_per_second: report.requests as f64 * 1e6 / report.microseconds.max(1) as f64,
            response_bytes: report.bytes as f64 / report.requests.max(1) as f64,
            latency: Latency { curve: report.percentiles, max: report.max },
            errors: report.errors,
            server,
            client,
            server_busy: None,
            warnings: Vec::new(),
        })
    }

    /// Starts wrk for so long on the first nginx.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn load(&self, scenario: Scenario, duration: Duration, interrupt: &Interrupt) -> Result<Running, Error> {
        self.load_at(0, scenario, duration, interrupt)
    }

    fn load_at(
        &self,
        at: usize,
        scenario: Scenario,
        duration: Duration,
        interrupt: &Interrupt,
    ) -> Result<Running, Error> {
        interrupt.check()?;
        let url = format!("http://{SERVER}:{}", port(at));
        let Scenario { heads, connections, count, .. } = scenario;
        if heads == Heads::Equal {
            return self.ask(&format!("{url}{}", scenario.path()), connections, count, duration);
        }
        let paths = load::expand(scenario.path()).map_err(|why| Error::Machine(why.to_owned()))?;
        let requests = load::wrk_script(heads.into(), &paths, USERS, 1);
        let script = self.write("requests.lua", &(requests + &script()))?;
        self.wrk(&format!("{url}/"), &script, connections, count, duration)
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
        let script = self.write("wrk.lua", &script())?;
        self.wrk(url, &script, connections, count, duration)
    }

    fn wrk(
        &self,
        url: &str,
        script: &Path,
        connections: Connections,
        count: u32,
        duration: Duration,
    ) -> Result<Running, Error> {
        let mut words = vec![self.wrk.clone(), "--threads=1".to_owned()];
        words.push(format!("--connections={count}"));
        words.push(format!("--duration={}s", duration.as_secs()));
        words.push("--timeout=10s".to_owned());
        words.push(format!("--script={}", text(script)));
        if connections == Connections::New {
            words.push("--header=Connection: close".to_owned());
        }
        words.push(url.to_owned());
        let program = Program { name: "wrk", netns: Some(&self.names.client), core: Some(self.cores.1), words };
        program.start(&self.dir)
    }
}

/// Starts an nginx by a configuration, which runs in the foreground, in a namespace and on a core.
///
/// # Errors
/// If it cannot be started.
pub fn start_nginx(nginx: &str, configuration: &Path, at: (&Path, &str, u16)) -> Result<Running, Error> {
    let (dir, names, core) = at;
    let words = [nginx, "-e", "stderr", "-c", &text(configuration)].map(str::to_owned).into();
    Program { name: "nginx", netns: Some(names), core: Some(core), words }.start(dir)
}

/// How long an nginx may take to listen after its worker is there, where nothing tells.
pub(crate) const LISTENS: Duration = Duration::from_millis(300);

/// Waits until an nginx serves; returns the processes that do.
///
/// # Errors
/// If it does not.
pub fn workers(running: &mut Running, interrupt: &Interrupt) -> Result<Vec<u32>, Error> {
    let master = running.pid();
    running.wait_until("start its worker", START, interrupt, || !children(master).is_empty())?;
    interrupt.sleep(LISTENS)?;
    Ok(children(master))
}

/// The port of an nginx.
#[must_use]
pub const fn port(at: usize) -> u16 {
    FIRST_PORT + at as u16
}

/// Has wrk print what was measured.
fn script() -> String {
    let list: Vec<String> = PERCENTILES.iter().map(f64::to_string).collect();
    include_str!("wrk.lua").replace("PERCENTILES", &list.join(", "))
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

/// Lines of `http` that let an nginx do its best, whatever it serves: no log, no limit on requests of a connection,
/// and what it needs of folders in one of ours.
pub(crate) fn best(dir: &Path) -> String {
    let dir = text(dir);
    format!(
        "    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    types {{ text/html html; }}
"
    )
}

/// A configuration that lets nginx do its best here: no log, files kept
/// open (more than there are), no limit on requests of a connection.
fn configuration(dir: &Path, site: &Path, port: u16) -> String {
    let (best, dir, site) = (best(dir), text(dir), text(site));
    format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid {dir}/nginx.pid;
events {{ worker_connections 32768; multi_accept on; }}
http {{
{best}    open_file_cache max=256;
    open_file_cache_valid 60s;
    default_type text/plain;
    server {{
        listen {SERVER}:{port} backlog=65535;
        root {site};
        location /small {{ return 200 \"{SMALL_BODY}\"; }}
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
    let said = Command::new(nginx).arg("-v").output().map_err(Error::io(format!("cannot run {nginx}")))?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let version = said.trim().rsplit_once("nginx/").map(|(_, version)| version.to_owned());
    let first = version.as_deref().and_then(|version| version.split_ascii_whitespace().next());
    first.map(str::to_owned).ok_or_else(|| Error::output(nginx, "version of nginx"))
}

/// Where one that was built on the machine lies as a rule, beside the path.
const USUAL: [&str; 4] =
    ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx", "/opt/nginx/sbin/nginx"];

/// The nginx to measure: those that are named, or else those that are found,
/// of different versions, the distribution's first; at most [`MOST_NGINX`].
///
/// # Errors
/// If one that is named cannot be run.
pub fn find(named: &[PathBuf]) -> Result<Vec<Nginx>, Error> {
    let know = |path: String| Ok(Nginx { version: version(&path)?, path });
    if !named.is_empty() {
        return named.iter().map(|path| know(text(path))).collect();
    }
    let usual = USUAL.iter().map(|path| (*path).to_owned()).filter(|path| Path::new(path).is_file());
    let mut found: Vec<Nginx> = Vec::new();
    for nginx in usual.chain(find_program("nginx")).filter_map(|path: String| know(path).ok()) {
        if found.len() < MOST_NGINX && found.iter().all(|other| other.version != nginx.version) {
            found.push(nginx);
        }
    }
    Ok(found)
}
