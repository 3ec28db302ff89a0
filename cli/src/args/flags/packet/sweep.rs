//! `nearside packet sweep`, as typed.

use clap::{Args, ValueHint};
use host::values::nonzero_duration;
use std::path::PathBuf;
use std::time::Duration;
use testbed::{Factor, FactorsPlan};

#[derive(Args)]
pub(in crate::args::flags) struct SweepArgs {
    /// A setting and its values, the usual one first: NAME=VALUE,VALUE,…; repeat for more
    /// [default: burst=32,8,128 ring=1024,256,4096 mode=io,macswap,5tswap]
    ///
    /// One is changed at a time. {NAME} stands for the value in --device-command, --link and
    /// --stream, {folder} for a folder of this run's own. Without --device-command the device is
    /// nearside packet forward over memif, with burst, mode, and ring (descriptors,
    /// as memif has it).
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    factor: Vec<Factor>,

    /// The device, as a command that stays, as in 'dpdk-testpmd … --burst={burst} --rxd={descriptors}'
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString, requires = "links")]
    device_command: Option<String>,

    /// The tester's ports, once or twice [default: two memifs in a folder of this run's own]
    #[arg(long = "link", value_name = "LINK")]
    links: Vec<String>,

    /// Frames to send, as nearside packet load has them
    #[arg(long, value_name = "STREAM", default_value = "64:max")]
    stream: String,

    /// Measure every point this often, by turns; five or more give an interval
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// For this long each time
    #[arg(long, short, value_name = "TIME", default_value = "2s", value_parser = nonzero_duration)]
    duration: Duration,

    /// Pin the tester to this core
    #[arg(long, value_name = "N")]
    core: Option<u16>,

    /// Pin a forwarder of ours to this core
    #[arg(long, value_name = "N", conflicts_with = "device_command")]
    device_core: Option<u16>,

    /// Keep the results in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Write the result to this file, as one page of HTML: verdict, figures, curves, and the result in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

fn factor(text: &str) -> Result<Factor, String> {
    let bad = || "write NAME=VALUE,VALUE, as in burst=32,8,128".to_owned();
    let (name, values) = text.split_once('=').ok_or_else(bad)?;
    let plain = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    if !plain(name) || values.iter().any(|value| !plain(value)) {
        return Err(bad());
    }
    Ok(Factor { name: name.to_owned(), values })
}

impl SweepArgs {
    pub(super) fn plan(self) -> Result<FactorsPlan, String> {
        let mut factors = self.factor;
        let mut device = Vec::new();
        if self.device_command.is_none() {
            // What a forwarder of ours has; whoever names some has the others as they are usually.
            for usual in ["burst=32,8,128", "ring=1024,256,4096", "mode=io,macswap,5tswap"] {
                let usual = factor(usual)?;
                if factors.is_empty() || !factors.iter().any(|factor| factor.name == usual.name) {
                    device.push(usual);
                }
            }
            let named = !factors.is_empty();
            for mut usual in device.drain(..) {
                if named {
                    usual.values.truncate(1);
                }
                factors.push(usual);
            }
        }
        let mut words: Vec<String> = ["--burst={burst}", "--mode={mode}"].map(str::to_owned).into();
        words.extend(["a", "b"].map(|name| format!("--link=memif:{{folder}}/{name}.sock,role=server")));
        if let Some(core) = self.device_core {
            words.extend(["--cores".to_owned(), core.to_string()]);
        }
        let links = match self.links.as_slice() {
            [] => ["a", "b"].map(|name| format!("memif:{{folder}}/{name}.sock,role=client,ring={{ring}}")).to_vec(),
            [..] if self.links.len() > 2 => return Err("there are one or two links".to_owned()),
            links => links.to_vec(),
        };
        Ok(FactorsPlan {
            factors,
            device_command: self.device_command,
            device: words,
            links,
            stream: self.stream,
            rounds: self.rounds,
            duration: self.duration,
            core: self.core,
            out: self.out,
            html: self.html,
            json: self.json,
        })
    }
}
