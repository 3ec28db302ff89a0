//! What a process that serves answers to a signal, for the command that sent it: by the
//! notes on its statistics page.

use crate::reload::LEFT;
use core::time::Duration;
use cpu::Clock;
use cpu::process_stat::parent_of;
use page::{Reader, living_of_user};
use std::collections::BTreeMap;
use std::thread;

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReloadAnswer {
    /// It is done; and what there is to be said of it.
    Done(String),
    /// It is, but for what was left as it was, which is among what there is to be said.
    Partly(String),
    /// It is not, and why.
    Failed(String),
    /// Nothing was said in time.
    None,
}

/// What processes have answered before a signal is sent.
#[derive(Debug)]
pub struct Answers {
    main: u32,
    /// By process: when it last answered.
    before: BTreeMap<u32, Option<Duration>>,
}

impl Answers {
    /// Those of the process `main`, and of whom it started; `None`: nobody of them has a
    /// page that this process finds.
    #[must_use]
    pub fn of(main: u32) -> Option<Self> {
        let before: BTreeMap<u32, Option<Duration>> = pages(main).map(|page| (page.pid(), answered(&page))).collect();
        (!before.is_empty()).then_some(Self { main, before })
    }

    /// Waits for the next one, for so long. The process, or one that it starts in its
    /// place, writes it.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> ReloadAnswer {
        let began = Clock.now();
        while Clock.now().since(began) < limit {
            for page in pages(self.main) {
                let Ok(Some(note)) = page.note() else { continue };
                if self.before.get(&page.pid()).copied().flatten() == Some(note.at) {
                    continue;
                }
                return match note.well {
                    true if note.text.contains(LEFT) => ReloadAnswer::Partly(note.text),
                    true => ReloadAnswer::Done(note.text),
                    false => ReloadAnswer::Failed(note.text),
                };
            }
            thread::sleep(LOOK);
        }
        ReloadAnswer::None
    }
}

fn answered(page: &Reader) -> Option<Duration> {
    page.note().ok().flatten().map(|note| note.at)
}

/// The pages of a process and of its children.
fn pages(main: u32) -> impl Iterator<Item = Reader> {
    let is_one = move |page: &Reader| page.pid() == main || parent_of(page.pid()) == Some(main);
    living_of_user().unwrap_or_default().into_iter().filter(is_one)
}
