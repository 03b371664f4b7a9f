//! Files and directories that an operator edits.

use std::fs;
use std::path::Path;

use tollgate_core::documents::{Change, DocumentError, MAX_DOCUMENT_SIZE};
use tollgate_core::{Clock, Time};

use super::*;

fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) {
    fs::write(directory.join(name), text).expect("writable");
}

/// Starts a retriever of a path.
async fn start(path: &Path) -> Result<Retriever<Texts>, RetrieveError> {
    let files = Arc::new(PlainFiles::new(path));
    Retriever::with_compiler(files, |sources| compile(&sources))
        .prefix("")
        .clock(ManualClock::default())
        .start()
        .await
}

#[tokio::test]
async fn the_rule_files_of_a_directory_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let rules = [("a.yaml", "1"), ("b.yml", "2"), ("c.toml", "3"), ("d.json", "4")];
    for (name, text) in rules {
        write(path, name, text);
    }
    let others = [
        ".hidden.yaml",
        ".#lock.yaml",
        "a.yaml~",
        "a.yaml.bak",
        ".a.yaml.swp",
        "#a.yaml#",
        "README.md",
        "4913",
        "yaml",
    ];
    for other in others {
        write(path, other, "broken");
    }
    fs::create_dir(path.join("e.yaml")).expect("writable");
    write(&path.join("e.yaml"), "nested.yaml", "broken");
    let retriever = start(path).await.expect("valid");
    assert_eq!(*retriever.load(), texts(rules));
    write(path, "b.yml", "changed");
    fs::remove_file(path.join("c.toml")).expect("writable");
    write(path, "0.yaml", "new");
    assert!(retriever.refresh().await.expect("valid"));
    let changed = texts([("0.yaml", "new"), ("a.yaml", "1"), ("b.yml", "changed"), ("d.json", "4")]);
    assert_eq!(*retriever.load(), changed);
    write(path, "b.yml", "changed");
    assert!(!retriever.refresh().await.expect("valid"), "contents are compared, not times");
}

#[tokio::test]
async fn a_single_file_is_read_whatever_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("rules");
    assert!(matches!(start(&file).await, Err(RetrieveError::Unavailable(_))), "there is none yet");
    write(directory.path(), "rules", "1");
    let retriever = start(&file).await.expect("valid");
    assert_eq!(*retriever.load(), texts([("rules", "1")]));
    fs::remove_file(&file).expect("writable");
    let gone = retriever.refresh().await.expect_err("gone").to_string();
    assert!(gone.contains(file.to_str().expect("UTF-8")), "{gone}");
    assert_eq!(*retriever.load(), texts([("rules", "1")]), "the last good rules stay");
    write(directory.path(), "rules", "2");
    assert!(retriever.refresh().await.expect("valid"));
    assert_eq!(*retriever.load(), texts([("rules", "2")]));
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_rejected_with_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), "shop.yaml", "domain: shop");
    let retriever = start(directory.path()).await.expect("valid");
    write(directory.path(), "shop.yaml", b"domain: shop\n# gr\xc3\xb6\xdfe\n");
    let rejected = retriever.refresh().await.expect_err("no text");
    assert!(matches!(rejected, RetrieveError::Unusable(_)), "{rejected:?}");
    let rejected = rejected.to_string();
    assert!(rejected.ends_with("shop.yaml:2:6: this is not UTF-8; save the file as UTF-8"), "{rejected}");
    retriever.refresh().await.expect_err("still");
    assert_eq!(retriever.stats().rejections, 1);
    assert_eq!(*retriever.load(), texts([("shop.yaml", "domain: shop")]));
}

#[tokio::test]
async fn a_file_that_is_too_large_is_rejected() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = fs::File::create(directory.path().join("large.yaml")).expect("writable");
    file.set_len(MAX_DOCUMENT_SIZE as u64 + 1).expect("sparse");
    let rejected = start(directory.path()).await.expect_err("too large").to_string();
    assert!(rejected.ends_with("large.yaml: more than 16777216 bytes; use fewer"), "{rejected}");
}

#[tokio::test]
async fn many_large_files_are_rejected_together() {
    let directory = tempfile::tempdir().expect("a directory");
    for number in 0..5 {
        let file = fs::File::create(directory.path().join(format!("{number}.yaml"))).expect("writable");
        file.set_len(MAX_DOCUMENT_SIZE as u64).expect("sparse");
    }
    let rejected = start(directory.path()).await.expect_err("too much").to_string();
    assert!(rejected.contains("more than 67108864 bytes of rules"), "{rejected}");
}

#[tokio::test]
async fn documents_of_files_can_only_be_read() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), "a.yaml", "1");
    let (files, change) = (PlainFiles::new(directory.path()), Change::by("ada", Time::EPOCH));
    assert!(matches!(files.put("a.yaml", "2", Some(1), &change).await, Err(DocumentError::ReadOnly)));
    assert!(matches!(files.delete("a.yaml", 1, &change).await, Err(DocumentError::ReadOnly)));
    for name in ["../a.yaml", "./a.yaml", "x/../a.yaml", "/etc/a.yaml", "a.yaml/", ".a.yaml", "a"] {
        assert!(files.get(name).await.expect("readable").is_none(), "{name}");
    }
    assert!(matches!(files.get("").await, Err(DocumentError::InvalidName(_))));
}

#[tokio::test]
async fn versions_count_changes_and_never_go_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = ManualClock::default();
    let files = PlainFiles::with_clock(directory.path(), clock.clone());
    let version = async || files.get("a.yaml").await.expect("readable").map(|found| found.revision.version);
    assert_eq!(version().await, None);
    write(directory.path(), "a.yaml", "1");
    assert_eq!(version().await, Some(1));
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(version().await, Some(1));
    write(directory.path(), "a.yaml", "2");
    assert_eq!(files.list("").await.expect("readable"), [("a.yaml".to_owned(), 2)]);
    fs::remove_file(directory.path().join("a.yaml")).expect("writable");
    assert_eq!((version().await, version().await), (None, None));
    write(directory.path(), "a.yaml", "2");
    assert_eq!(version().await, Some(4), "to disappear is a change, too");
    let history = files.history("a.yaml").await.expect("readable");
    assert_eq!((history.len(), history[0].version, history[0].time), (1, 4, clock.now()));
    assert!(files.get_version("a.yaml", 4).await.expect("readable").is_some());
    assert!(files.get_version("a.yaml", 2).await.expect("readable").is_none());
    assert!(files.list("b").await.expect("readable").is_empty());
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A directory as Kubernetes mounts it: its files are links into a generation, which is swapped by one rename.
    fn generation(root: &Path, number: u32) {
        let (name, link) = (format!("..{number}"), root.join("..data_tmp"));
        fs::create_dir(root.join(&name)).expect("writable");
        for file in ["a.yaml", "b.yaml"] {
            write(&root.join(&name), file, number.to_string());
        }
        symlink(&name, &link).expect("writable");
        fs::rename(&link, root.join("..data")).expect("writable");
    }

    /// Also ends the test if a swap fails.
    struct SetOnDrop<'a>(&'a AtomicBool);

    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_directory_that_is_swapped_is_read_before_or_after_the_swap() {
        const SWAPS: u32 = 200;
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        generation(root, 0);
        for file in ["a.yaml", "b.yaml"] {
            symlink(Path::new("..data").join(file), root.join(file)).expect("writable");
        }
        let retriever = start(root).await.expect("valid");
        let done = AtomicBool::new(false);
        let runtime = tokio::runtime::Handle::current();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _done = SetOnDrop(&done);
                (1..=SWAPS).for_each(|number| generation(root, number));
            });
            scope.spawn(|| {
                let check = || {
                    let rules = retriever.rules();
                    assert_eq!(rules["a.yaml"], rules["b.yaml"]);
                };
                while !done.load(Ordering::Acquire) {
                    // An error where it is swapped faster than it can be read.
                    let _ = runtime.block_on(retriever.refresh());
                    check();
                }
                runtime.block_on(retriever.refresh()).expect("at rest");
                check();
            });
        });
        assert_eq!(retriever.rules()["a.yaml"], SWAPS.to_string());
    }

    #[tokio::test]
    async fn what_is_no_file_is_not_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), "a.yaml", "1");
        // A link to nothing, and one to a directory.
        symlink("missing", directory.path().join("b.yaml")).expect("writable");
        symlink(".", directory.path().join("c.yaml")).expect("writable");
        // A pipe: to open it would wait for a writer.
        let pipe = directory.path().join("d.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is everywhere");
        assert!(made.success());
        let retriever = start(directory.path()).await.expect("valid");
        assert_eq!(*retriever.load(), texts([("a.yaml", "1")]));
    }
}
