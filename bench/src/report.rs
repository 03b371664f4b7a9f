//! The table and the claim lines.

use std::collections::BTreeMap;
use std::fmt;

/// What was found for one subject in one column.
#[derive(Clone, Debug)]
pub enum Finding {
    Figure {
        value: f64,
        /// Other programs were in the way; see [`crate::crowding`].
        crowded: bool,
    },
    /// It has the form that the workload needs, but does not do what the workload asks.
    Cannot(String),
}

/// Everything found so far, by subject and column.
#[derive(Default)]
pub struct Findings(BTreeMap<(&'static str, String), Finding>);

impl Findings {
    pub fn record(&mut self, subject: &'static str, column: String, finding: Finding) {
        self.0.insert((subject, column), finding);
    }

    pub fn figure(&self, subject: &'static str, column: &str) -> Option<f64> {
        match self.0.get(&(subject, column.to_owned()))? {
            Finding::Figure { value, .. } => Some(*value),
            Finding::Cannot(_) => None,
        }
    }

    fn cell(&self, subject: &'static str, column: &str) -> String {
        match self.0.get(&(subject, column.to_owned())) {
            Some(Finding::Figure { value, crowded }) => {
                let mark = if *crowded { "~" } else { "" };
                let decimals = match *value {
                    small if small < 1.0 => 3,
                    medium if medium < 99.95 => 1,
                    _ => 0,
                };
                format!("{mark}{value:.decimals$}")
            }
            Some(Finding::Cannot(_)) => "cannot".to_owned(),
            None => "-".to_owned(),
        }
    }

    /// A line per subject, a column per workload, one figure per number of threads.
    ///
    /// A column is its heading and the names of the findings under it.
    pub fn print_table(&self, subjects: &[&'static str], columns: &[(&str, Vec<String>)]) {
        let mut lines = vec![vec![String::new()]];
        lines[0].extend(columns.iter().map(|(heading, _)| (*heading).to_owned()));
        for &subject in subjects {
            let mut line = vec![subject.to_owned()];
            for (_, names) in columns {
                let mut cells: Vec<_> = names.iter().map(|name| self.cell(subject, name)).collect();
                cells.dedup_by(|later, earlier| later == "-" && earlier == "-");
                line.push(cells.join(" / "));
            }
            lines.push(line);
        }
        print_aligned(&lines);
    }

    /// What follows the tables: what has to be said about them, and the claims.
    pub fn conclude(&self, claims: &[Claim]) {
        self.print_remarks();
        if !cfg!(feature = "peers") && claims.iter().any(|claim| self.value(claim).is_none()) {
            println!("(built without the feature `peers`: nobody to compare with)");
        }
        println!();
        self.print_claims(claims);
    }

    /// What has to be said about the figures in the tables.
    fn print_remarks(&self) {
        let crowded = |finding: &Finding| matches!(finding, Finding::Figure { crowded: true, .. });
        if self.0.values().any(crowded) {
            println!("~ other programs kept the processors busy: run this again on a quiet machine");
        }
        for ((subject, column), finding) in &self.0 {
            if let Finding::Cannot(why) = finding {
                println!("{subject} cannot do {column}: {why}");
            }
        }
    }

    /// A line per claim, as far as both of its figures were found.
    fn print_claims(&self, claims: &[Claim]) {
        for claim in claims {
            if let Some(value) = self.value(claim) {
                let decimals = if value != 0.0 && value.abs() < 0.1 { 4 } else { 2 };
                println!("{} {} {} {value:.decimals$}", claim.kind, claim.name, claim.against);
            }
        }
    }

    fn value(&self, claim: &Claim) -> Option<f64> {
        let ours = self.figure(claim.ours.0, &claim.ours.1)?;
        let theirs = self.figure(claim.theirs.0, &claim.theirs.1)?;
        Some(match claim.kind {
            Kind::Ratio => theirs / ours,
            Kind::Cost => ours / theirs,
            Kind::Added => ours - theirs,
            Kind::Itself => ours,
        })
    }
}

/// Lines of cells below each other; the first column to the left, the others to the right.
pub fn print_aligned(lines: &[Vec<String>]) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |column: usize| lines.iter().filter_map(move |line| line.get(column)?.chars().count().into());
    let widths: Vec<usize> = (0..columns).map(|column| wide(column).max().unwrap_or(0)).collect();
    for line in lines {
        print!("{:<width$}", line[0], width = widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            print!("  {cell:>width$}");
        }
        println!();
    }
}

/// Which way a claim is to be read.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Theirs by ours: higher is better.
    Ratio,
    /// Ours by theirs: lower is better.
    Cost,
    /// Ours less theirs, which ours contains: lower is better.
    Added,
    /// Ours as it is, with theirs only in the table beside it: lower is better.
    Itself,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ratio => "ratio",
            Self::Cost | Self::Added | Self::Itself => "cost",
        })
    }
}

/// A comparison of two findings, each named by subject and column.
pub struct Claim {
    pub kind: Kind,
    pub name: String,
    pub against: &'static str,
    pub ours: (&'static str, String),
    pub theirs: (&'static str, String),
}
