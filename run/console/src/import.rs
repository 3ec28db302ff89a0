//! `nearside import`: another stack's configuration, as our command line.

use crate::plan::ImportPlan;
use fstack::{Import, Meaning};
use say::Failure;
use std::fs::File;
use std::io::{Read, Write};

/// Longer files are no configuration.
const LONGEST: u64 = 2 << 20;

/// Prints the command line that does the same, and what each key means.
///
/// # Errors
/// If the file cannot be read or is no configuration of F-Stack.
pub fn import(plan: &ImportPlan) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let read = File::open(&plan.file).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    read.map_err(|why| format!("{}: {why}", plan.file.display()))?;
    let import =
        fstack::read(&String::from_utf8_lossy(&bytes)).map_err(|why| format!("{}: {why}", plan.file.display()))?;
    let mut out = std::io::stdout().lock();
    if plan.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&import)?)?;
        return Ok(());
    }
    if plan.explain {
        write!(out, "{}", explained(&import))?;
    }
    writeln!(out, "{}", import.command.join(" "))?;
    Ok(())
}

/// A line for each key, under its section.
fn explained(import: &Import) -> String {
    let mut text = String::new();
    let mut section = None;
    for line in &import.lines {
        if section != Some(line.section.as_str()) {
            text.push_str(&format!("[{}]\n", line.section));
            section = Some(&line.section);
        }
        let (mark, meaning) = match &line.meaning {
            Meaning::Option(text) => ("=", text),
            Meaning::Nothing(text) => (" ", text),
            Meaning::Warning(text) => ("!", text),
        };
        // Nothing in a file may speak to the terminal.
        let shown: String = format!("{}={}", line.key, line.value).chars().filter(|char| !char.is_control()).collect();
        let meaning: String = meaning.chars().filter(|char| !char.is_control()).collect();
        text.push_str(&format!("{mark} {shown}\n      {meaning}\n"));
    }
    text.push_str("\n= an option of ours, ! mind this, blank: nothing to do\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained_under_its_section() {
        let text = "[dpdk]\nlcore_mask=14\npkt_tx_delay=100\n[port0]\naddr=192.0.2.2\n";
        let told = explained(&fstack::read(text).expect("a configuration"));
        assert!(told.contains("! pkt_tx_delay=100") && told.find("[dpdk]") < told.find("[port0]"), "{told}");
    }
}
