//! The file that keeps the last good rules, for a start while their source is down.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::collect::{Documents, MAX_TOTAL_SIZE};

/// The largest file that is read: texts grow when they are quoted.
const MAX_FILE_SIZE: u64 = 4 * MAX_TOTAL_SIZE as u64;

/// Writes the documents to the file. Whoever reads it meanwhile sees the one before it, or this one.
pub(super) fn save(path: &Path, documents: &Documents) -> io::Result<()> {
    let mut list = Vec::new();
    for (name, version, text) in documents.iter() {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), name.into());
        fields.insert("version".to_owned(), version.into());
        fields.insert("text".to_owned(), text.into());
        list.push(Value::Object(fields));
    }
    let mut root = Map::new();
    root.insert("documents".to_owned(), Value::Array(list));
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(Value::Object(root).to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // It may not even exist; what went wrong first is what is reported.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Reads the documents from the file. The error says what is wrong with it.
pub(super) fn load(path: &Path) -> Result<Documents, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_SIZE).read_to_string(&mut text));
    read.map_err(|error| format!("{}: {error}", path.display()))?;
    let damaged = || format!("{}: the file is damaged; delete it", path.display());
    let root: Value = serde_json::from_str(&text).map_err(|_| damaged())?;
    let list = root.get("documents").and_then(Value::as_array).ok_or_else(damaged)?;
    let mut documents = Documents::default();
    for document in list {
        let field = |name: &str| document.get(name);
        let (Some(name), Some(version), Some(text)) = (
            field("name").and_then(Value::as_str),
            field("version").and_then(Value::as_u64),
            field("text").and_then(Value::as_str),
        ) else {
            return Err(damaged());
        };
        if !documents.add(name, version, text) {
            return Err(damaged());
        }
    }
    Ok(documents)
}
