//! `nearside status`, as typed.

use clap::{Args, ValueHint};
use console::StatusPlan;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct StatusArgs {
    /// The statistics page to read [default: those of all running processes]
    #[arg(value_name = "PAGE", value_hint = ValueHint::FilePath)]
    page: Option<PathBuf>,

    /// Print the machine's listening TCP sockets instead: connections that wait, for how many there is room, whose
    /// they are
    #[arg(long, conflicts_with = "page")]
    listening: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    pub(super) fn plan(self) -> StatusPlan {
        StatusPlan { page: self.page, listening: self.listening, json: self.json }
    }
}
