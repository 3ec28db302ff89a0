//! Results in files: whole at any moment, whenever the process ends.

use say::Failure;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Writes a file as a whole: beside it first, and in its place once all of it
/// is on the disk. Whoever reads it finds the old or the new.
///
/// # Errors
/// If the disk refuses.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let beside = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&beside, path)
    };
    write().map_err(|why| {
        // Of a disk that is full, the rest is to be had again.
        let _ = fs::remove_file(&beside);
        format!("cannot write {}: {why}", path.display()).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_old_or_new_and_never_half() {
        let folder = std::env::temp_dir().join(format!("nearside-keep-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let file = folder.join("result.json");
        write_whole(&file, "one").expect("written");
        write_whole(&file, "two").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("read"), "two");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        assert!(write_whole(&folder.join("missing/result.json"), "x").is_err());
        let _ = fs::remove_dir_all(&folder);
    }
}
