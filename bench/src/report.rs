//! Tables and claim lines.

use std::collections::BTreeMap;
use std::fmt;

/// The result of one subject in one column.
#[derive(Clone, Debug)]
pub enum Finding {
    Figure {
        value: f64,
        /// Other programs disturbed the measurement; see [`crate::crowding`].
        crowded: bool,
    },
    /// The subject has the form that the workload needs, but does not decide as required. Contains the reason.
    Cannot(String),
}

/// All results so far, by subject and column.
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

    /// Prints a line per subject. A column consists of its heading and the names of the findings below it.
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

    /// Prints remarks about the tables, and the claim lines.
    pub fn conclude(&self, claims: &[Claim]) {
        self.print_remarks();
        if !cfg!(feature = "peers") && claims.iter().any(|claim| self.value(claim).is_none()) {
            println!("(built without the feature `peers`: claims about peers are missing)");
        }
        println!();
        self.print_claims(claims);
    }

    /// Prints remarks about figures in the tables.
    fn print_remarks(&self) {
        let crowded = |finding: &Finding| matches!(finding, Finding::Figure { crowded: true, .. });
        if self.0.values().any(crowded) {
            println!("~ other programs kept the processors busy: repeat the run on an idle machine");
        }
        for ((subject, column), finding) in &self.0 {
            if let Finding::Cannot(why) = finding {
                println!("{subject} cannot do {column}: {why}");
            }
        }
    }

    /// Prints a line per claim for which both figures exist.
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
            Kind::Absolute => ours,
        })
    }
}

/// Prints aligned cells: the first column to the left, the others to the right.
fn print_aligned(lines: &[Vec<String>]) {
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

/// How a claim compares two figures.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Theirs divided by ours: higher is better.
    Ratio,
    /// Ours divided by theirs: lower is better.
    Cost,
    /// Ours minus theirs: lower is better.
    Added,
    /// Ours alone: lower is better.
    Absolute,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ratio => "ratio",
            Self::Cost | Self::Added | Self::Absolute => "cost",
        })
    }
}

/// A comparison of two findings, each identified by subject and column.
pub struct Claim {
    pub kind: Kind,
    pub name: String,
    pub against: &'static str,
    pub ours: (&'static str, String),
    pub theirs: (&'static str, String),
}
