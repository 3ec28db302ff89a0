//! `nearside nginx`, as typed: nginx's own options.

use super::host::HostArgs;
use super::sockets::{Accept, RestartArgs, hands_over};
use app::Prefix;
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use host::values::{self, Size};
use nginx_command::{ExplainForm, NginxAction, NginxLinks, NginxPlan, NginxSignal, NginxWorkers};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

#[derive(Args)]
#[command(disable_version_flag = true)]
pub(in crate::args) struct NginxArgs {
    /// What paths in the configuration are relative to [default: /usr/share/nginx]
    #[arg(short, value_name = "PREFIX", value_hint = ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    /// The configuration; other files are looked for beside it
    /// [default: /etc/nginx/nginx.conf]
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    configuration: Option<PathBuf>,

    /// The error log until the configuration names another
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    error_log: Option<PathBuf>,

    /// Directives that stand before the configuration, as in 'daemon off;'
    #[arg(short, value_name = "DIRECTIVES", default_value = "", hide_default_value = true)]
    globals: String,

    /// Tell metrics over HTTP here: ADDRESS:PORT, or a port of 127.0.0.1
    ///
    /// As nearside serve does: /metrics, /healthz and /readyz. No directive says
    /// this, so that nginx takes the same configuration. Without the option the
    /// environment's NEARSIDE_METRICS says it, for units and containers whose
    /// command line is fixed. [default: nowhere]
    #[arg(long, value_name = "ADDRESS", value_parser = values::metrics_address)]
    metrics: Option<SocketAddr>,

    /// Let this address or network have any part of worker_connections, as that of
    /// a proxy; repeat for more
    ///
    /// Where seven of eight connections are open, tunnels and requests that wait
    /// for an upstream give way whose client, an IPv4 address or an IPv6 /64, has
    /// more than a quarter. Those of set_real_ip_from are left out, too.
    #[arg(long, value_name = "ADDRESS[/BITS]", help_heading = "Connections")]
    exempt_source: Vec<Prefix>,

    /// Say whether the configuration is good, and exit
    #[arg(short)]
    test: bool,

    /// As -t, and print the configuration with all that it includes
    #[arg(short = 'T')]
    dump: bool,

    /// With -t: nothing but errors
    #[arg(short)]
    quiet: bool,

    /// With -t: what each server and location is, what has no effect here, and
    /// what keeps answers from being given ready
    #[arg(long)]
    explain: bool,

    /// With --explain: the same as JSON, errors and warnings included
    #[arg(long, requires = "explain")]
    json: bool,

    /// Tell the process that serves: stop, quit, reload, or reopen its logs
    #[arg(short, value_enum, value_name = "SIGNAL")]
    signal: Option<ServerSignal>,

    /// Print the version, and exit
    #[arg(short, action = ArgAction::SetTrue)]
    version: bool,

    /// Print the version and what there is of nginx's modules, and exit
    #[arg(short = 'V')]
    all_of_version: bool,

    /// Print all directives with what becomes of each, in Markdown, and exit
    #[arg(long)]
    directives: bool,

    /// How workers come by new connections, whatever each listen says [default: least
    /// where listen has no reuseport, reuseport where it has]
    ///
    /// Without reuseport a connection goes to the worker with the least to do, as from a
    /// queue that all share; where the eBPF program for it cannot be had (it takes Linux
    /// 5.5, and root's rights), workers share one queue (exclusive).
    #[arg(long, value_enum, value_name = "MODEL", conflicts_with = "link", help_heading = "Connections")]
    accept: Option<Accept>,

    /// Send files that are larger than memory from blocks of so much memory, read past the page cache
    ///
    /// For all silos together; each reads its own part by io_uring, and all who want a block
    /// send from where it was read to. Without it each answer has what is read for it
    /// alone, through the page cache.
    #[arg(long, value_name = "SIZE", requires = "link")]
    #[arg(help_heading = "Links (with --link)")]
    media_memory: Option<Size>,

    #[command(flatten)]
    host: HostArgs,
}

/// What a process that serves is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ServerSignal {
    /// End at once
    Stop,
    /// End when all requests are answered
    Quit,
    /// Read the configuration again
    Reload,
    /// Open the logs again
    Reopen,
}

impl NginxArgs {
    pub(super) fn plan(self) -> Result<NginxPlan, String> {
        let metrics = match self.metrics {
            Some(address) => Some(address),
            None => metrics_of(std::env::var(VARIABLE).ok())?,
        };
        let action = match (self.signal, self.version || self.all_of_version) {
            (_, true) => NginxAction::Version { whole: self.all_of_version },
            _ if self.directives => NginxAction::Directives,
            (Some(signal), _) => NginxAction::Signal(match signal {
                ServerSignal::Stop => NginxSignal::Stop,
                ServerSignal::Quit => NginxSignal::Quit,
                ServerSignal::Reload => NginxSignal::Reload,
                ServerSignal::Reopen => NginxSignal::Reopen,
            }),
            _ if self.test || self.dump || self.explain => {
                let explain = match (self.explain, self.json) {
                    (false, _) => None,
                    (true, false) => Some(ExplainForm::Words),
                    (true, true) => Some(ExplainForm::Json),
                };
                NginxAction::Test { dump: self.dump, explain }
            }
            _ => NginxAction::Serve,
        };
        let (links, mut workers) = paths(self.host, self.media_memory)?;
        workers.accept = self.accept.map(Into::into);
        Ok(NginxPlan {
            prefix: self.prefix,
            configuration: self.configuration,
            error_log: self.error_log,
            globals: self.globals,
            metrics,
            quiet: self.quiet,
            links: links.map(Box::new),
            workers,
            exempt: self.exempt_source,
            action,
        })
    }
}

/// What is asked of links, or of workers.
pub(super) fn paths(host: HostArgs, media_memory: Option<Size>) -> Result<(Option<NginxLinks>, NginxWorkers), String> {
    if host.link.is_empty() {
        host.without_link()?;
        let spin = host.spin()?;
        if host.fifo.is_some() {
            return Err("--sched: over kernel sockets it is for serve of a folder and for load".to_owned());
        }
        let HostArgs { congestion, user_timeout, status_page, max_pacing_rate, .. } = host;
        let pacing_rate = max_pacing_rate.map(NonZeroU64::get);
        let accept = None;
        return Ok((None, NginxWorkers { spin, congestion, pacing_rate, user_timeout, status_page, accept }));
    }
    let counted = host.names_silos();
    // How many there are is the configuration's to say.
    let host = host.plan(driver::Role::Server, 1)?;
    let restart = hands_over(&host).is_ok().then(|| RestartArgs::default().plan());
    Ok((Some(NginxLinks { host, counted, restart, media_bytes: media_bytes(media_memory)? }), NginxWorkers::default()))
}

/// With less there are not blocks enough to share: a part of less is none.
const MEDIA_MEMORY_MIN: u64 = 8 << 20;

/// Memory for blocks of large files.
pub(super) fn media_bytes(asked: Option<Size>) -> Result<usize, String> {
    let Some(Size(bytes)) = asked else { return Ok(0) };
    if bytes < MEDIA_MEMORY_MIN {
        return Err(format!("--media-memory takes at least {}M, and that of each silo", MEDIA_MEMORY_MIN >> 20));
    }
    usize::try_from(bytes).map_err(|_| "--media-memory is too large".to_owned())
}

/// Says where metrics are told, where the command line does not.
pub(super) const VARIABLE: &str = "NEARSIDE_METRICS";

/// What the environment says; one that is empty says nothing.
pub(super) fn metrics_of(variable: Option<String>) -> Result<Option<SocketAddr>, String> {
    let address = variable.filter(|text| !text.is_empty()).map(|text| values::metrics_address(&text));
    address.transpose().map_err(|why| format!("{VARIABLE}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_metrics_are() {
        let of = |text: &str| metrics_of(Some(text.to_owned()));
        assert_eq!((metrics_of(None), of("")), (Ok(None), Ok(None)));
        assert_eq!(of("9145"), Ok("127.0.0.1:9145".parse().ok()));
        assert_eq!(of("[::]:1"), Ok("[::]:1".parse().ok()));
        for wrong in ["0", "x", "127.0.0.1", "127.0.0.1:0", "99999"] {
            assert!(of(wrong).is_err_and(|why| why.starts_with("NEARSIDE_METRICS: write ")), "{wrong}");
        }
    }
}
