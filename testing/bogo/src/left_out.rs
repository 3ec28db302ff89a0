//! The list of tests that are left out, with why, as the runner wants to have it: JSON.

use std::process::ExitCode;

/// Prints the runner's configuration.
pub fn print(file: &str) -> ExitCode {
    match std::fs::read_to_string(file).map_err(|e| e.to_string()).and_then(|text| configuration(&text)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("bogo: {file}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A line that begins with `#` is a comment, one that ends with a colon is the reason for all patterns
/// below it, one on each line.
fn configuration(text: &str) -> Result<String, String> {
    let (mut reason, mut entries) = (None, Vec::new());
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(words) = line.strip_suffix(':') {
            reason = Some(words);
            continue;
        }
        let why = reason.ok_or_else(|| format!("line {} has no reason above it", at + 1))?;
        entries.push(format!("    {}: {}", quoted(line), quoted(why)));
    }
    Ok(format!("{{\n  \"HalfRTTTickets\": 0,\n  \"DisabledTests\": {{\n{}\n  }}\n}}\n", entries.join(",\n")))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
