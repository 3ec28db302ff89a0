//! Files: what a test names, and what its workers read.

use rustix::fs::OFlags;
use spec::{Files, SPEC_LIMIT, SecretKey};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The longest secret, as Kubernetes has it.
const SECRET_LIMIT: usize = 1 << 20;

/// What a test names: data in its own folder, secrets where the user says.
#[derive(Debug)]
pub struct SpecFolder {
    /// The folder of the test's file.
    pub folder: PathBuf,
    /// The folder of secrets.
    pub secrets: Option<PathBuf>,
}

impl SpecFolder {
    /// The folder of a test's file, and what the file holds.
    ///
    /// # Errors
    /// If it cannot be read, in words for the user.
    pub fn open(spec: &Path, secrets: Option<&Path>) -> Result<(Self, String), String> {
        let named = |why: String| format!("{}: {why}", spec.display());
        let bytes = read_at_most(spec, SPEC_LIMIT).map_err(named)?;
        let text = String::from_utf8(bytes).map_err(|_| named("it is no UTF-8".to_owned()))?;
        let folder = spec.parent().map_or_else(PathBuf::new, Path::to_owned);
        Ok((Self { folder, secrets: secrets.map(Path::to_owned) }, text))
    }
}

impl Files for SpecFolder {
    fn secret(&mut self, key: &SecretKey) -> Result<String, String> {
        let SecretKey { secret, key } = key;
        let Some(folder) = &self.secrets else {
            return Err(format!("the secret {secret} is needed: --secrets FOLDER says where FOLDER/{secret}/{key} is"));
        };
        let file = folder.join(secret).join(key);
        let named = |why: String| format!("the key {key} of the secret {secret} ({}): {why}", file.display());
        let bytes = read_at_most(&file, SECRET_LIMIT).map_err(named)?;
        let text = String::from_utf8(bytes).map_err(|_| named("it is no UTF-8".to_owned()))?;
        // What an editor leaves behind.
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    fn data(&mut self, file: &str) -> Result<Vec<u8>, String> {
        read_at_most(&self.folder.join(file), load::FEED_LIMIT).map_err(|why| format!("{file}: {why}"))
    }
}

/// The content of a file that is no longer than so many bytes.
///
/// # Errors
/// If it is longer, or no file, or cannot be read.
pub fn read_at_most(file: &Path, limit: usize) -> Result<Vec<u8>, String> {
    let cannot = |why: io::Error| format!("cannot be read: {why}");
    let mut bytes = Vec::new();
    // A pipe that nobody writes to is not waited for.
    let opened =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(file).map_err(cannot)?;
    if !opened.metadata().map_err(cannot)?.is_file() {
        return Err("this is no file".to_owned());
    }
    // One more shows that it is longer: a file of gigabytes is not read to its end.
    opened.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > limit { Err(format!("it is longer than {} KiB", limit >> 10)) } else { Ok(bytes) }
}

/// A folder for what the workers of one test read, which nobody else may; gone with it.
#[derive(Debug)]
pub struct TestFolder(PathBuf);

impl TestFolder {
    /// Makes the folder; `name` is nobody else's.
    ///
    /// # Errors
    /// If it cannot be made, or is there.
    pub fn make(name: &str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Writes a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(bytes)?;
        Ok(path)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_and_data_are_read_and_what_is_not_there_is_named() {
        let folder = TestFolder::make(&format!("nearside-spec-{}", std::process::id())).expect("a folder");
        let path = folder.write("test.yaml", b"kind: x").expect("a file");
        fs::create_dir(folder.0.join("shop")).expect("a folder");
        fs::write(folder.0.join("shop/token"), "Bearer xyz\n").expect("a file");
        fs::write(folder.0.join("long"), vec![b'x'; SPEC_LIMIT + 1]).expect("a file");
        let (mut files, text) = SpecFolder::open(&path, Some(&folder.0)).expect("there");
        assert_eq!(text, "kind: x");
        let key = |key: &str| SecretKey { secret: "shop".to_owned(), key: key.to_owned() };
        assert_eq!(files.secret(&key("token")).as_deref(), Ok("Bearer xyz"));
        let why = files.secret(&key("word")).expect_err("not there");
        assert!(why.starts_with("the key word of the secret shop (") && why.contains("No such file"), "{why}");
        files.secrets = None;
        assert!(files.secret(&key("token")).is_err_and(|why| why.contains("--secrets")));
        assert_eq!(files.data("test.yaml").as_deref(), Ok(&b"kind: x"[..]));
        assert!(files.data("none.csv").is_err_and(|why| why.starts_with("none.csv: cannot be read")));
        assert!(files.data("shop").is_err_and(|why| why.contains("no file")));
        assert!(SpecFolder::open(&folder.0.join("long"), None).is_err_and(|why| why.contains("longer than 1024 KiB")));
        let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let gone = folder.0.clone();
        drop(folder);
        assert!(!gone.exists());
    }
}
