//! `nearside serve --check`: whether a plan is good, without serving.

use super::kernel;
use crate::args::{ServePath, ServePlan};
use crate::host::{Failure, Layout};
use server::{Content, ReaderKind, Server, WallClock};
use silo::Clock;
use std::io::Write;

/// Tries what can be tried without taking anything from a process that
/// serves: cores and ports are looked for, the content's folder and the access
/// log are opened, which makes that where there is none.
///
/// # Errors
/// What is wrong.
pub fn check(plan: &ServePlan) -> Result<(), Failure> {
    let mut server = plan.server.clone();
    let what = match &mut server.content {
        Content::Directory(directory) => {
            directory.reader = ReaderKind::Inline;
            directory.root.display().to_string()
        }
        Content::Respond(_) => "a fixed response".to_owned(),
    };
    let how = match &plan.path {
        ServePath::Kernel(plan) => format!("over kernel sockets, workers: {}", kernel::check(plan, server)?),
        ServePath::Link { host, .. } => {
            let layout = Layout::new(host)?;
            Server::new(server, WallClock::new(Clock.now(), Clock.unix()))?;
            let ports: Vec<&str> = layout.ports.iter().map(|port| port.name.as_str()).collect();
            format!("over {}, silos: {}", ports.join(" "), layout.seats.len())
        }
    };
    let file = plan.settings.file.as_ref().map(|file| format!(", with the settings of {}", file.display()));
    writeln!(std::io::stdout(), "good: serves {what} {how}{}", file.unwrap_or_default())?;
    Ok(())
}
