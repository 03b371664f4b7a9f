//! Many readers while rules are swapped: none of them sees a mixture.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

/// Ends the test if a thread of it fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Rules of two parts that belong together.
#[derive(Debug)]
struct Halves {
    left: u64,
    right: Vec<u64>,
}

fn halves(sources: &[Source]) -> Result<Halves, RuleErrors> {
    compile(sources)?;
    let left = sources[0].text().parse().expect("a number");
    // Built step by step, so that a reader of what is not finished would see it.
    let right = (0..16).map(|_| left).collect();
    Ok(Halves { left, right })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_sees_half_a_rule_set() {
    const SWAPS: u64 = 300;
    let store = Unreliable::new();
    store.write("rules/shop", "0").await;
    let retriever =
        Retriever::with_compiler(store.shared(), |sources| halves(&sources)).clock(ManualClock::default());
    let retriever = retriever.start().await.expect("valid");
    let (done, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let reader = || {
        let _done = SetOnDrop(&done);
        let mut last = 0;
        while !done.load(Ordering::Relaxed) {
            let rules = retriever.load();
            assert!(rules.right.iter().all(|right| *right == rules.left), "{rules:?}");
            assert!(rules.left >= last, "old rules after new ones");
            last = rules.left;
            let kept = retriever.rules();
            assert!(kept.left >= last && kept.right[15] == kept.left);
            read.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
        }
        last
    };
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(reader)).collect();
        let write = scope.spawn(|| {
            let _done = SetOnDrop(&done);
            runtime.block_on(async {
                for number in 1..=SWAPS {
                    // Every tenth change is broken first: it must not be seen at all.
                    if number % 10 == 0 {
                        store.write("rules/shop", "broken").await;
                        assert!(retriever.refresh().await.is_err());
                    }
                    store.write("rules/shop", &number.to_string()).await;
                    let before = read.load(Ordering::Relaxed);
                    assert!(retriever.refresh().await.expect("valid"));
                    // The rules are read between swaps, too, whatever the machine does meanwhile.
                    while read.load(Ordering::Relaxed) < before + 2 && !done.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }
            });
        });
        write.join().expect("all swaps");
        for reader in readers {
            reader.join().expect("no mixture");
        }
    });
    assert_eq!(retriever.load().left, SWAPS);
    assert_eq!(retriever.stats().loads, SWAPS + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_at_once_load_each_change_once() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    for number in 0..50 {
        bench.store.write("rules/shop", &number.to_string()).await;
        let polls = (0..8).map(|_| retriever.refresh());
        let loaded = futures_util::future::join_all(polls).await;
        let loaded = loaded.into_iter().filter(|loaded| *loaded.as_ref().expect("up")).count();
        assert_eq!(loaded, 1);
    }
    assert_eq!(retriever.stats().loads, 51);
}
