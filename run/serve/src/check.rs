//! `nearside serve --check`: whether a plan is good, without serving.

use super::check_places::{self as places, Findings};
use super::privileges::{self, Decision};
use super::{confine, kernel, link};
use crate::plan::{ServePath, ServePlan};
use cpu::Clock;
use host::{self, Layout};
use say::Failure;
use server::{AccessLog, Content, ReaderKind, Server, WallClock};
use std::io::Write;

/// Tries what can be tried without leaving anything behind, and without taking
/// anything from a process that serves: what the server is made of is made and
/// dropped; files and sockets that would be made are not, but whether they
/// could be is found out.
///
/// # Errors
/// Everything that is wrong, a line each.
pub fn check(plan: &ServePlan) -> Result<(), Failure> {
    let mut server = plan.server.clone();
    let what = match &mut server.content {
        Content::Directory(directory) => {
            directory.reader = ReaderKind::Inline;
            directory.root.display().to_string()
        }
        Content::Respond(_) => "a fixed response".to_owned(),
        Content::Program(program, _) => format!("what the configuration says, {} servers", program.servers.len()),
    };
    let mut findings = Findings::default();
    if let AccessLog::File(path) = &server.access_log {
        findings.take(places::log(path));
    }
    // To open it would make it.
    server.access_log = AccessLog::Off;
    findings.take(plan.pid_file.as_deref().map_or(Ok(()), places::pid_file));
    places::metrics(plan.metrics, &mut findings);
    let how = match &plan.path {
        ServePath::Kernel(kernel) => {
            places::restarts(&kernel.restart, &mut findings);
            places::page(kernel.status_page.as_deref(), &mut findings);
            places::listening(&kernel.listen, &mut findings);
            match kernel::check(kernel, server) {
                Ok(checked) => {
                    findings.notes.extend(checked.notes);
                    format!("over kernel sockets, workers: {}", checked.workers)
                }
                Err(why) => findings.wrong(why),
            }
        }
        ServePath::Link { host, restart, listen, .. } => {
            if let Some(restart) = restart {
                places::restarts(restart, &mut findings);
            }
            places::page(host.status_page.as_deref(), &mut findings);
            findings.take(host.capture.as_deref().map_or(Ok(()), places::file));
            findings.take(host::own::check(host).map_err(|why| why.to_string()));
            findings.faults.extend(links::lacking(&host.links));
            findings.take(places::links(&host.links));
            if let Some(interface) = host.local_clients() {
                findings.notes.push(match link::try_local_clients(listen, interface) {
                    Ok(()) => "clients on this host would be served, too, over kernel sockets".to_owned(),
                    Err(why) => format!("clients on this host would not be served: {why}"),
                });
            }
            findings.take(Server::new(server, WallClock::new(Clock.now(), Clock.unix())).map(drop));
            match Layout::new(host) {
                Ok(layout) => {
                    findings.notes.extend(layout.warnings);
                    let ports: Vec<&str> = layout.ports.iter().map(|port| port.name.as_str()).collect();
                    format!("over {}, silos: {}", ports.join(" "), layout.seats.len())
                }
                Err(why) => findings.wrong(why),
            }
        }
    };
    rights(plan, &mut findings);
    if !findings.faults.is_empty() {
        return Err(findings.faults.join("\n  ").into());
    }
    let file = plan.settings.file.as_ref().map(|file| format!(", with the settings of {}", file.display()));
    let mut out = std::io::stdout().lock();
    writeln!(out, "good: serves {what} {how}{}", file.unwrap_or_default())?;
    findings.notes.iter().try_for_each(|note| writeln!(out, "  {note}"))?;
    Ok(())
}

/// Whom it would serve as, and what of that this kernel does not have.
fn rights(plan: &ServePlan, findings: &mut Findings) {
    match privileges::decide(plan, std::process::id()) {
        Ok(Decision { confinement: Some(confinement), said, .. }) => {
            findings.notes.extend(said);
            if confinement.restricts {
                findings
                    .notes
                    .extend(confine::lacking().iter().map(|lacking| format!("would serve without it: {lacking}")));
            }
            findings
                .notes
                .extend(confinement.identity.map(|user| format!("would serve as {} (user {})", user.name, user.uid)));
        }
        Ok(Decision { said, .. }) => findings.notes.extend(said),
        Err(why) => _ = findings.wrong(why),
    }
}
