//! `nearside import`, as typed.

use ::import::ImportPlan;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct ImportArgs {
    /// F-Stack's configuration: config.ini or f-stack.conf
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// The nginx.conf that F-Stack's nginx has beside it: what becomes of each line of both, the command, and the
    /// configuration, which is nginx's own with all else as comments
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    nginx: Option<PathBuf>,

    /// Say of every key what it means here
    #[arg(long)]
    explain: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ImportArgs {
    pub(super) fn plan(self) -> ImportPlan {
        let Self { file, nginx, explain, json } = self;
        ImportPlan { file, nginx, explain, json }
    }
}
