//! `nearside import`: another stack's configuration, as our command line.

use fstack::{Import, Meaning, NginxImport};
use say::Failure;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Longer files are no configuration.
const LONGEST: u64 = 2 << 20;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportPlan {
    /// The configuration.
    pub file: PathBuf,
    /// The nginx.conf of F-Stack's nginx, to be imported with it.
    pub nginx: Option<PathBuf>,
    /// Say of every key what it means here.
    pub explain: bool,
    /// Print JSON.
    pub json: bool,
}

/// Prints the command line that does the same, and what each key means; with an
/// nginx.conf also the configuration.
///
/// # Errors
/// If a file cannot be read or is no configuration of F-Stack.
pub fn import(plan: &ImportPlan) -> Result<(), Failure> {
    let text = read(&plan.file)?;
    let import = fstack::read(&text).map_err(|why| format!("{}: {why}", plan.file.display()))?;
    let mut out = std::io::stdout().lock();
    if let Some(file) = &plan.nginx {
        let both =
            fstack::read_nginx(&read(file)?, &text, &import).map_err(|why| format!("{}: {why}", file.display()))?;
        match plan.json {
            true => {
                let value = serde_json::json!({ "stack": import.lines, "nginx": both });
                writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
            }
            false => write!(out, "{}", configuration(&import, &both))?,
        }
        return Ok(());
    }
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

fn read(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    read.map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A configuration of nginx's that says in comments where each line is from:
/// written to a file, it is what the command serves.
fn configuration(import: &Import, both: &NginxImport) -> String {
    let mut text = String::from("# f-stack.conf, line by line\n");
    for line in &import.lines {
        let what = format!("[{}] {}={}", line.section, line.key, line.value);
        text.push_str(&fate(line.line, &what, &line.meaning));
    }
    text.push_str("#\n# nginx.conf, line by line\n");
    for one in &both.directives {
        let left = if one.stays { "" } else { " (left out)" };
        text.push_str(&fate(one.line, &format!("{}{left}", one.text), &one.meaning));
    }
    text.push_str(
        "#\n# = said by the command, ! mind this, blank: nothing to do\n#\n# The command, with this configuration as ",
    );
    text.push_str(&format!("{}:\n# {}\n\n", fstack::CONFIGURATION, plain(&both.command.join(" "))));
    text.push_str(&both.configuration);
    text
}

/// What becomes of one line, as a comment.
fn fate(line: usize, what: &str, meaning: &Meaning) -> String {
    let (mark, meaning) = marked(meaning);
    format!("# {mark} {line:>3} {}\n#         {}\n", plain(what), plain(meaning))
}

const fn marked(meaning: &Meaning) -> (&'static str, &String) {
    match meaning {
        Meaning::Option(text) => ("=", text),
        Meaning::Nothing(text) => (" ", text),
        Meaning::Warning(text) => ("!", text),
    }
}

/// Without what would speak to the terminal, or end a comment.
fn plain(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
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
        let (mark, meaning) = marked(&line.meaning);
        let shown = plain(&format!("{}={}", line.key, line.value));
        text.push_str(&format!("{mark} {shown}\n      {}\n", plain(meaning)));
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
