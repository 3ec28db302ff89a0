//! `nearside import`, as typed.

use clap::{Args, ValueHint};
use console::ImportPlan;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct ImportArgs {
    /// F-Stack's configuration: config.ini or f-stack.conf
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Say of every key what it means here
    #[arg(long)]
    explain: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ImportArgs {
    pub(super) fn plan(self) -> ImportPlan {
        let Self { file, explain, json } = self;
        ImportPlan { file, explain, json }
    }
}
