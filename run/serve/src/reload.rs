//! SIGHUP: the settings file is read again, the content is looked for again,
//! and the log opened again. Connections notice nothing.
//!
//! Everything that can fail is done here, on the main thread, for all workers
//! before the first of them hears of it: so either all take it up, or nothing
//! changes.

use super::asked::Asked;
use super::error_log::tell_syslog;
use super::orders::{NewSettings, Orders};
use super::places;
use super::settings::{self, Step};
use super::systemd;
use super::waiting;
use super::ward::{self, Brought};
use crate::plan::ServePlan;
use cpu::Clock;
use latency::SeriesTable;
use page::Page;
use say::Failure;
use server::Content;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread;
use wire::Time;

/// What stands before what a reload leaves out.
pub const LEFT: &str = "left as it was";

/// What is done where there is nothing else to say of it.
const DONE: &str = "reloaded: content is looked for again, and the log opened again";

/// Who knows what each worker's part of a plan is.
pub trait Prepare {
    /// What each worker is to take up to get from `now` to `next`.
    ///
    /// # Errors
    /// If something cannot be had; nothing has changed then.
    fn prepare(&self, now: &ServePlan, next: &ServePlan) -> Result<Vec<NewSettings>, Failure>;

    /// Where latencies are counted, if they are.
    fn latencies(&self) -> Option<&SeriesTable>;
}

/// Ends the series of hosts and locations that `plan` has no more, before the new ones
/// look for places.
fn end_series(table: &SeriesTable, plan: &ServePlan) {
    let Content::Program(program, _) = &plan.server.content else { return };
    let name = |name: &[u8]| latency::series_host(if name.is_empty() { b"_" } else { name });
    let hosts: BTreeSet<String> = program.servers.iter().map(|server| name(&server.name)).collect();
    let locations: BTreeSet<String> =
        program.blocks.iter().map(|block| latency::series_location(&block.label)).collect();
    table.retain(|host, location| hosts.contains(host) && locations.contains(location));
}

/// What watches for the wish.
pub struct Reload {
    /// How many of them were seen to.
    seen: usize,
    /// What the parent brought for the next one.
    brought: Option<Brought>,
    /// What is in force.
    plan: ServePlan,
    /// The connections that there is room for.
    most: usize,
    /// What is to be said when all workers have taken it up.
    pending: Option<String>,
    /// When the last one began.
    began: Time,
}

impl Reload {
    /// From what is in force at the start.
    pub fn new(plan: &ServePlan) -> Self {
        Self {
            seen: 0,
            brought: None,
            plan: plan.clone(),
            most: plan.server.limits.connections,
            pending: None,
            began: Time::ZERO,
        }
    }

    /// The parent wishes it, and has opened what it takes.
    pub fn bring(&mut self, brought: Brought, asked: &Asked) {
        self.brought = Some(brought);
        asked.reloads.fetch_add(1, Ordering::Relaxed);
    }

    /// What is in force.
    pub const fn plan(&self) -> &ServePlan {
        &self.plan
    }

    /// Has all workers take up what is new, if it was asked for and can be
    /// had; and tells of it, on `page` too, when all have. Whether another plan is in
    /// force now.
    pub fn look(&mut self, (orders, asked): (&Orders, &Asked), prepare: &impl Prepare, page: &mut Page) -> bool {
        if !orders.all_reloaded() {
            // One after the other: there is one place for news.
            return false;
        }
        if let Some(said) = self.pending.take() {
            let replaced = orders.replaced();
            // The rest of a log may go to a slow disk.
            let _ = thread::Builder::new().name("replaced".to_owned()).spawn(move || drop(replaced));
            self.over(page, true, &said);
        }
        let wishes = asked.reloads.load(Ordering::Relaxed);
        if core::mem::replace(&mut self.seen, wishes) == wishes {
            return false;
        }
        systemd::reloading("reading settings and content again");
        self.began = Clock.now();
        if probes::reload_begin::is_traced() {
            probes::reload_begin::fire(wishes as u64);
        }
        match self.begin(prepare) {
            Ok((news, said)) => {
                self.pending = Some(said);
                orders.reload(news);
                true
            }
            Err(why) => {
                self.over(page, false, &why.to_string());
                false
            }
        }
    }

    fn over(&self, page: &mut Page, done: bool, said: &str) {
        if probes::reload_end::is_traced() {
            let took = Clock.now().since(self.began);
            probes::reload_end::fire(self.seen as u64, done.into(), took.as_nanos() as u64);
        }
        tell(page, done, said);
    }

    /// This is in force, the error log of the process included.
    fn adopt(&mut self, plan: ServePlan) {
        let now = core::mem::replace(&mut self.plan, plan);
        if now.error_log.file != self.plan.error_log.file {
            places::reopen_error_log(&self.plan, None);
        }
        say::no_less_than(self.plan.error_log.level);
        if now.error_log.syslog != self.plan.error_log.syslog {
            tell_syslog(&self.plan);
        }
    }

    /// What workers are to take up, and what there is to be said of it.
    fn begin(&mut self, prepare: &impl Prepare) -> Result<(Vec<NewSettings>, String), Failure> {
        let _watch = waiting::of("the reload");
        let stays = |why: String| format!("{why}; everything stays as it was");
        let Brought { settings: file, refused } = self.brought.take().unwrap_or_default();
        if let Some(why) = refused {
            return Err(stays(why).into());
        }
        let Step { plan, changed, left } = match &self.plan.settings.file {
            None => Step { plan: self.plan.clone(), changed: Vec::new(), left: Vec::new() },
            Some(_) => (self.plan.again)(file)
                .and_then(|asked| settings::step(&self.plan, &asked, self.most))
                .map_err(stays)?,
        };
        if let Content::Directory(directory) = &plan.server.content
            // As a request would look for a file in it.
            && let Err(why) = files::look_at_root(&directory.root)
        {
            let root = directory.root.display();
            return Err(format!("cannot read {root} again: {why}; what was served is served on").into());
        }
        if let Content::Directory(directory) = &plan.server.content
            && !ward::reaches(&directory.root)
        {
            let (root, remedy) = (directory.root.display(), settings::remedy(&plan, 1));
            return Err(format!(
                "{root} leads where this process may not read, which {remedy}; what was served is served on"
            )
            .into());
        }
        let news = prepare.prepare(&self.plan, &plan).map_err(|why| format!("{why}; everything stays as it was"))?;
        if let Some(table) = prepare.latencies() {
            end_series(table, &plan);
        }
        let mut said = DONE.to_owned();
        if !changed.is_empty() {
            said.push_str(&format!("; changed: {}", changed.join(", ")));
        }
        if !left.is_empty() {
            let remedy = settings::remedy(&plan, left.len());
            said.push_str(&format!("; {LEFT}: {}, which {remedy}", left.join(", ")));
        }
        self.adopt(plan);
        Ok((news, said))
    }
}

fn tell(page: &mut Page, done: bool, said: &str) {
    if done {
        say::info(said)
    } else {
        say::error(said)
    }
    page.tell(Clock.unix(), done, said);
    ward::reloaded(done);
    systemd::ready(&format!("serving; {said}"));
}
