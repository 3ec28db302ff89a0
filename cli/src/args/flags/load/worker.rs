//! A part of a load that many generate, as typed by whoever controls the whole.

use clap::Args;
use generator::{ControllerPlan, WorkerPlan};
use host::values::BadValue;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The place of a worker.
#[derive(Args)]
pub(super) struct WorkerArgs {
    /// Generate this part of the load, counted from 0, as in 2/10, and begin when --controller says so
    #[arg(long, value_name = "I/N", hide = true, requires = "controller_place",
          conflicts_with_all = ["find_max", "sweep", "bulk", "stream", "requests", "http2", "per_url"])]
    worker: Option<Part>,

    /// Where the controller of all workers is; what is measured goes there
    #[arg(long, value_name = "ADDRESS", hide = true, requires = "worker", group = "controller_place")]
    controller: Option<SocketAddr>,

    /// The same, as the files of this folder say: controller, controller-key, and token
    #[arg(long, value_name = "FOLDER", hide = true, requires = "worker", group = "controller_place")]
    controller_folder: Option<PathBuf>,
}

/// One part of so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    index: u32,
    workers: u32,
}

impl FromStr for Part {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let numbers = text.split_once('/').and_then(|(index, all)| Some((index.parse().ok()?, all.parse().ok()?)));
        numbers
            .filter(|(index, workers)| index < workers)
            .map(|(index, workers)| Self { index, workers })
            .ok_or_else(|| BadValue::new("write a part of so many, counted from 0, as in 2/10"))
    }
}

impl WorkerArgs {
    pub(super) fn plan(&self) -> Option<WorkerPlan> {
        let Part { index, workers } = self.worker?;
        let address = self.controller.map(ControllerPlan::Address);
        let controller = address.or_else(|| self.controller_folder.clone().map(ControllerPlan::Folder))?;
        Some(WorkerPlan { index, workers, controller })
    }
}
