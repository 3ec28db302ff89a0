//! `nearside serve`, as typed.

use super::connections;
use super::host::HostArgs;
use super::nginx::{media_bytes, paths};
use super::privileges::PrivilegeArgs;
use super::sockets::{RestartArgs, SocketArgs};
use crate::args::serve_again;
use app::{Prefix, SourceRule};
use clap::{Args, ValueEnum, ValueHint};
use host::values::{self, Count, Size};
use nginx_command::{SiteForm, SitePlan, SiteTask};
use serve::{ErrorLogs, Listen, PortPlan, ServePath, ServePlan, Settings, SignalRules};
use server::{AccessLog, LineFormat, RequestWork, Respond};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct ServeArgs {
    /// The folder to serve; SIGHUP has it looked for and read again
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath,
          required_unless_present_any = ["respond", "settings", "site", "site_schema"])]
    folder: Option<PathBuf>,

    /// Read settings from this file, and again at SIGHUP
    ///
    /// TOML: the keys are the long names of the options here, and folder. One
    /// that takes a value has text or a number, one that is repeated may have
    /// a list, one without a value is true or false. What the command line
    /// says wins over the file.
    ///
    /// SIGHUP reads it again. Time limits, --max-connections, --idle,
    /// --tx-delay, --access-log, the folder or the --respond body, --symlinks,
    /// --cache-size, --cache-copies, --sendfile-above, --restart-timeout,
    /// --restart-drain, and over a link --congestion, and --listen with
    /// addresses of --addr, change at once and no connection is lost; what else
    /// was changed is named and stays as it was until the next start, which
    /// reads the file too: SIGUSR2 starts a successor, where there can be one. A
    /// file with a fault changes nothing. What came of it is on the statistics
    /// page.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    settings: Option<PathBuf>,

    /// Serve the site in this file: hosts, locations, rules, logs and limits
    ///
    /// TOML, whose keys docs/site.md has: what an nginx.conf can say, without its
    /// language. The file says where it is listened and how many workers there
    /// are, so that options about these are refused here; those of --link, of
    /// rights and of restarts are not. SIGHUP reads it again: a file with a fault
    /// changes nothing, and is told of with line and column.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["folder", "respond", "settings", "listen", "plan_only"])]
    site: Option<PathBuf>,

    /// Say whether the command line and --settings make sense and what they
    /// name is there, and exit without serving
    #[arg(long, conflicts_with_all = ["take_over", "plan_only"])]
    check: bool,

    /// Answer every request with this text, or with this many bytes if it is
    /// a size as in 2649 or 64K (write text:64K to mean the text)
    #[arg(long, value_name = "TEXT|SIZE", value_parser = values::respond, conflicts_with = "folder")]
    respond: Option<Respond>,

    /// Listen here: PORT, ADDRESS:PORT, [ADDRESS]:PORT, unix:PATH, or systemd;
    /// repeat for more
    ///
    /// A port alone is that port of all addresses. unix:@NAME is an abstract
    /// socket. systemd, or systemd:NAME, is what systemd opened for this
    /// process (systemd.socket(5)). With --link there are only ports.
    /// [default: systemd's sockets if there are any, or else port 80]
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<Listen>,

    /// Hold at most this many connections, all workers together; for each more,
    /// one that is idle is closed, and where none is, it waits
    #[arg(long, value_name = "N", default_value = "100k")]
    #[arg(help_heading = "Limits and times")]
    max_connections: Count,

    /// Hold at most this many connections of one client, an IPv4 address or an
    /// IPv6 /64, in each silo or worker
    ///
    /// More are reset, and counted as source_limited. Clients behind one proxy
    /// or one translated address are one; see --exempt-source.
    /// [default: any number]
    #[arg(long, value_name = "N")]
    #[arg(help_heading = "Limits and times")]
    max_per_source: Option<Count>,

    /// Let this address or network have any number, as that of a proxy; repeat for more
    ///
    /// Neither --max-per-source holds for it, nor that a client with more than a
    /// quarter of --max-connections gives way where seven of eight are open.
    #[arg(long, value_name = "ADDRESS[/BITS]")]
    #[arg(help_heading = "Limits and times")]
    exempt_source: Vec<Prefix>,

    /// Keep at most this much file content in memory; larger files are streamed
    #[arg(long, value_name = "SIZE", default_value = "256M", conflicts_with = "respond")]
    #[arg(help_heading = "Files")]
    cache_size: Size,

    /// Keep at most this much file content in more than one NUMA domain: a size, or off
    ///
    /// With several silos, half of --cache-size is for files of more than
    /// 16 KiB, which the silos have in common; what several domains ask for
    /// is copied to each, up to this size in all. What is not copied is read
    /// from the one domain that has it, and counted as crossing.
    /// [default: a quarter of --cache-size]
    #[arg(long, value_name = "SIZE|off", value_parser = values::copies, requires = "link", conflicts_with = "respond")]
    #[arg(help_heading = "Files")]
    cache_copies: Option<Size>,

    /// Send files that are larger than memory from blocks of so much memory, read past the page cache
    ///
    /// For all silos together; each reads its own part by io_uring, and all who want a block
    /// send from where it was read to. Without it each answer has what is read for it
    /// alone, through the page cache.
    #[arg(long, value_name = "SIZE", requires = "link", conflicts_with = "respond")]
    #[arg(help_heading = "Links (with --link)")]
    media_memory: Option<Size>,

    /// Which symbolic links below the folder are followed
    #[arg(long, value_enum, default_value_t = Symlinks::Off, conflicts_with = "respond")]
    #[arg(help_heading = "Files")]
    symlinks: Symlinks,

    /// Wait this long for the complete head of a request, then answer 408
    /// (as nginx's client_header_timeout)
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::nonzero_duration)]
    #[arg(help_heading = "Limits and times")]
    header_timeout: Duration,

    /// Wait this long for more of a request's body, then answer 408
    /// (as nginx's client_body_timeout)
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::nonzero_duration)]
    #[arg(help_heading = "Limits and times")]
    body_timeout: Duration,

    /// Keep an idle connection open for this long (as nginx's keepalive_timeout)
    #[arg(long, value_name = "TIME", default_value = "65s", value_parser = values::nonzero_duration)]
    #[arg(help_heading = "Limits and times")]
    keep_alive_timeout: Duration,

    /// Wait at most this long for a client to take more of a response, then
    /// reset (as nginx's send_timeout)
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::nonzero_duration)]
    #[arg(help_heading = "Limits and times")]
    send_timeout: Duration,

    /// Finish responses under way for this long when told to stop, then reset
    /// (as nginx's worker_shutdown_timeout)
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    #[arg(help_heading = "Limits and times")]
    drain_timeout: Duration,

    /// Write an access log: off, - for standard
    /// output, stderr, or a file's name; SIGUSR1 opens a file again, for rotation
    ///
    /// Whoever reads a pipe too slowly loses lines, which app.log_drops of
    /// nearside status counts; no request waits for it.
    #[arg(long, value_name = "off|-|stderr|FILE", default_value = "off", value_parser = values::access_log)]
    access_log: AccessLog,

    /// What lines of the access log look like
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Combined)]
    log_format: LogFormat,

    /// Tell metrics over HTTP here: ADDRESS:PORT, or a port of 127.0.0.1
    ///
    /// /metrics has what nearside status shows, as OpenMetrics; /healthz says
    /// whether all silos or workers look up, /readyz whether new clients may be
    /// sent: not while it starts or stops, when a successor has taken over, or
    /// when the file system has answered nothing for 5 s. A
    /// thread of its own answers, by a socket of the kernel over links too.
    /// Whoever reaches the address may ask. [default: nowhere]
    #[arg(long, value_name = "ADDRESS", value_parser = values::metrics_address)]
    metrics: Option<SocketAddr>,

    /// With --site: say what becomes of it, and exit: in words, as json, or as
    /// the nginx.conf that says the same
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, default_missing_value = "words")]
    #[arg(requires = "site", conflicts_with = "check", help_heading = "Sites (with --site)")]
    explain: Option<ExplainedAs>,

    /// Print the JSON schema of files for --site, and exit
    #[arg(long, exclusive = true, help_heading = "Sites (with --site)")]
    site_schema: bool,

    /// For experiments: have each request cost so much of the worker's processor
    /// time before it is answered, as a program behind the server would:
    /// burn:1.8ms, of 1us to 1s
    ///
    /// Requests are worked on one after the other, in the order in which they
    /// came, one in each turn of a silo or worker: what else the turn is for
    /// (acknowledgements, timers, new connections) is late by one request's work
    /// at most. The thread's own clock says when it is done, so that time in which
    /// something else ran does not count. A request that waits for longer than
    /// --header-timeout is answered 503; requests that are no requests, and methods
    /// that are refused, cost nothing.
    #[arg(long, value_name = "burn:TIME", value_parser = values::work, help_heading = "Experiments")]
    #[arg(conflicts_with_all = ["site", "site_schema"])]
    work: Option<RequestWork>,

    #[command(flatten)]
    privileges: PrivilegeArgs,

    #[command(flatten)]
    sockets: SocketArgs,

    #[command(flatten)]
    restart: RestartArgs,

    /// With --plan: print it as JSON
    #[arg(long, requires = "plan_only", help_heading = "Links (with --link)")]
    json: bool,

    #[command(flatten)]
    host: HostArgs,
}

/// What lines of the access log look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogFormat {
    /// As nginx's combined
    Combined,
    /// An object of JSON each: time, remote_addr, request, status,
    /// body_bytes_sent, http_referer, http_user_agent
    Json,
}

/// Which symbolic links below the served folder are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Symlinks {
    /// None
    Off,
    /// Those that stay within the folder
    Within,
    /// All, wherever they lead
    On,
}

/// In which form a site is explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ExplainedAs {
    /// For people
    Words,
    /// For programs
    Json,
    /// As an nginx.conf
    Nginx,
}

impl ServeArgs {
    /// Whether a site in a file is meant.
    pub(super) const fn is_site(&self) -> bool {
        self.site.is_some() || self.site_schema
    }

    /// What is meant by a site in a file.
    pub(super) fn site_plan(self) -> Result<SitePlan, String> {
        let task = match (self.site_schema, self.check, self.explain) {
            (true, ..) => SiteTask::Schema,
            (_, true, _) => SiteTask::Check,
            (.., Some(ExplainedAs::Words)) => SiteTask::Explain(SiteForm::Words),
            (.., Some(ExplainedAs::Json)) => SiteTask::Explain(SiteForm::Json),
            (.., Some(ExplainedAs::Nginx)) => SiteTask::Explain(SiteForm::Nginx),
            _ => SiteTask::Serve,
        };
        let pid_file = self.restart.pid_file.clone();
        let (links, workers) = paths(self.host, self.media_memory)?;
        Ok(SitePlan {
            file: self.site.unwrap_or_default(),
            metrics: self.metrics,
            links: links.map(Box::new),
            workers,
            exempt: self.exempt_source,
            restart: self.restart.plan(),
            privileges: self.privileges.plan(),
            pid_file,
            task,
        })
    }

    pub(super) fn plan(self) -> Result<ServePlan, String> {
        let (check, settings) = (self.check, Settings { file: self.settings, ..Settings::default() });
        let (privileges, metrics) = (self.privileges.plan(), self.metrics);
        let max_connections = connections(self.max_connections, "--max-connections")?;
        let per_source = source_rule(self.max_per_source, &self.exempt_source)?;
        let mut server = match (self.folder, self.respond) {
            (_, Some(respond)) => server::Config::respond(respond),
            (Some(folder), None) => server::Config::directory(folder),
            (None, None) => return Err("give a folder to serve, or --respond".to_owned()),
        };
        if let server::Content::Directory(directory) = &mut server.content {
            directory.cache_bytes = usize::try_from(self.cache_size.0).map_err(|_| "--cache-size is too large")?;
            directory.media_bytes = media_bytes(self.media_memory)?;
            directory.symlinks = match self.symlinks {
                Symlinks::Off => server::Symlinks::Off,
                Symlinks::Within => server::Symlinks::WithinRoot,
                Symlinks::On => server::Symlinks::On,
            };
        }
        server.work = self.work;
        server.access_log = self.access_log;
        server.log_format = match self.log_format {
            LogFormat::Combined => LineFormat::Combined,
            LogFormat::Json => LineFormat::Json,
        };
        let timeouts = &mut server.timeouts;
        timeouts.http.header = self.header_timeout;
        timeouts.http.body = self.body_timeout;
        timeouts.http.keep_alive = self.keep_alive_timeout;
        timeouts.http.send = self.send_timeout;
        timeouts.drain = self.drain_timeout;
        server.limits.connections = max_connections as usize;
        server.limits.exempt = self.exempt_source;
        if self.host.link.is_empty() {
            if let server::Content::Directory(directory) = &mut server.content {
                directory.cache_file_bytes = self.sockets.cached_max()?;
            }
            let pid_file = self.restart.pid_file.clone();
            let mut plan = self.sockets.plan(self.restart, self.listen, self.host, max_connections)?;
            plan.config.per_source = per_source;
            let path = ServePath::Kernel(plan);
            let (signals, error_log) = (SignalRules::Own, ErrorLogs::default());
            let again = serve_again;
            return Ok(ServePlan {
                server,
                path,
                settings,
                check,
                privileges,
                signals,
                pid_file,
                error_log,
                metrics,
                again,
            });
        }
        let mut host = self.host.plan(driver::Role::Server, max_connections)?;
        host.per_source = per_source;
        let copies = self.cache_copies.map(|size| usize::try_from(size.0));
        let copies = copies.transpose().map_err(|_| "--cache-copies is too large")?;
        let pid_file = self.restart.pid_file.clone();
        let (restart, json) = (self.restart.plan_over(&host)?, self.json);
        let listen = Box::new(PortPlan { everywhere: ports(self.listen)?, at: Vec::new() });
        let path = ServePath::Link { host, listen, copies, restart: restart.map(Box::new), json };
        let (signals, error_log, again) = (SignalRules::Own, ErrorLogs::default(), serve_again);
        Ok(ServePlan { server, path, settings, check, privileges, signals, pid_file, error_log, metrics, again })
    }
}

/// How many connections each client may have, if that is limited.
fn source_rule(limit: Option<Count>, exempt: &[Prefix]) -> Result<Option<SourceRule>, String> {
    let Some(Count(limit)) = limit else { return Ok(None) };
    let limit = u32::try_from(limit).map_err(|_| "--max-per-source is too large")?;
    Ok(Some(SourceRule { limit, exempt: exempt.to_vec() }))
}

/// The ports to listen on over a link.
fn ports(listen: Vec<Listen>) -> Result<Vec<u16>, String> {
    let ports = listen.into_iter().map(|listen| match listen {
        Listen::Port(port) => Ok(port),
        Listen::At(other) => Err(format!("--listen {other}: over a link there are only ports, of every --addr")),
        Listen::Systemd(_) => Err("--listen systemd: over a link there are only ports, of every --addr".to_owned()),
    });
    let mut ports = ports.collect::<Result<Vec<u16>, String>>()?;
    if ports.is_empty() {
        ports.push(80);
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}
