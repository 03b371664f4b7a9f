//! Several files, of several domains and of one.

use super::*;

const MERGED: ReadOptions = ReadOptions { merge_domains: true };

const ONE: &str = "domain: shop\nrules: [{ name: a, limit: 5/s }]\ndescriptors: [{ key: a }]\n";

#[track_caller]
fn errors_of(files: &[(&str, &str)], options: ReadOptions) -> Vec<String> {
    let errors = read_files(files, options).expect_err("these files have errors");
    let place = |error: &Diagnostic| {
        format!("{}:{}:{} {}", error.file(), error.line(), error.column(), error.message())
    };
    errors.diagnostics().iter().map(place).collect()
}

#[test]
fn a_domain_in_two_files() {
    let two = "# more\ndomain: shop\nrules: [{ name: b, limit: 5/s }]\n";
    let files = [("one.yaml", ONE), ("two.yaml", two)];
    let expected = "two.yaml:2:9 the domain `shop` exists already (line 1 of one.yaml)";
    assert_eq!(errors_of(&files, ReadOptions::default()), [expected]);

    let (domains, _) = read_files(&files, MERGED).expect("files that merge");
    let names: Vec<_> = domains[0].rules.iter().map(|rule| &*rule.name.value).collect();
    assert_eq!((domains.len(), names), (1, vec!["a", "b"]));
}

#[test]
fn what_merged_files_must_not_repeat() {
    let one = format!("{ONE}identifiers: {{ user: claim.sub, ip: {{ ipv6_prefix: 56 }} }}\n");
    let two = one.replace("shop", "'shop'");
    assert_eq!(
        errors_of(&[("one.yaml", &one), ("two.yaml", &two)], MERGED),
        [
            "two.yaml:2:17 the rule `a` exists already (line 2 of one.yaml)",
            "two.yaml:3:22 the descriptor `a` without a value exists already at this level (line 3 of one.yaml)",
            "two.yaml:4:16 the identifier `user` exists already (line 4 of one.yaml)",
            "two.yaml:4:33 the identifier `ip` exists already (line 4 of one.yaml)",
        ]
    );
}

#[test]
fn domains_are_apart() {
    let two = ONE.replace("shop", "bank");
    let (domains, _) = read_files(&[("one.yaml", ONE), ("two.yaml", &two)], MERGED).expect("two domains");
    let names: Vec<_> = domains.iter().map(|domain| &*domain.name.value).collect();
    assert_eq!(names, ["shop", "bank"]);
}

#[test]
fn errors_of_all_files_at_once() {
    let files =
        [("one.yaml", "domain: [\n"), ("two.toml", "domain = 5\nx = 1\n"), ("three.json", "{\"y\": 1}")];
    let found = errors_of(&files, ReadOptions::default());
    for (file, line) in [("one.yaml", 1), ("two.toml", 2), ("three.json", 1)] {
        assert!(found.iter().any(|error| error.starts_with(&format!("{file}:{line}:"))), "{file}: {found:?}");
    }
}
