//! Which parts of a subcommand are measured: all of them, or those that were named.

use crate::report::Claim;

/// What is measured.
#[derive(Debug, Default)]
pub struct Selection(Option<Named>);

#[derive(Debug, Default)]
struct Named {
    /// Tables of which everything is measured.
    tables: Vec<&'static str>,
    /// Figures, each by subject and column.
    figures: Vec<(&'static str, String)>,
}

impl Selection {
    /// Selects the figures of the claims with these names, and the tables with these names. Without names, everything.
    ///
    /// A claim goes before a table of the same name, as it needs fewer subjects.
    pub fn of(names: &[String], claims: &[Claim], tables: &[&'static str]) -> Result<Self, String> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        let mut selected = Named::default();
        for name in names {
            let figures = claims.iter().filter(|claim| claim.name == *name);
            let before = selected.figures.len();
            selected.figures.extend(figures.flat_map(|claim| [claim.ours.clone(), claim.theirs.clone()]));
            if selected.figures.len() > before {
                continue;
            }
            let Some(table) = tables.iter().find(|table| *table == name) else {
                let mut known: Vec<_> = claims.iter().map(|claim| &*claim.name).collect();
                known.extend(tables);
                known.sort_unstable();
                known.dedup();
                return Err(format!("--only: unknown name {name}; use some of: {}", known.join(", ")));
            };
            selected.tables.push(table);
        }
        Ok(Self(Some(selected)))
    }

    /// Returns whether a subject is to be measured for a table, in which it has the figures of these columns.
    pub fn includes<'a>(
        &self,
        table: &str,
        subject: &str,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> bool {
        let Some(Named { tables, figures }) = &self.0 else { return true };
        let is_named = |column| figures.iter().any(|(name, of)| *name == subject && of == column);
        tables.contains(&table) || columns.into_iter().any(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Kind;

    fn select(names: &[&str]) -> Result<Selection, String> {
        let claim = |name: &str, ours, theirs, column: &str| Claim {
            kind: Kind::Ratio,
            name: name.to_owned(),
            against: theirs,
            ours: (ours, column.to_owned()),
            theirs: (theirs, column.to_owned()),
        };
        let claims = [claim("few", "a", "b", "few"), claim("scripts", "a", "c", "script-few")];
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        Selection::of(&names, &claims, &["few", "many"])
    }

    #[test]
    fn without_names_everything_is_measured() {
        assert!(select(&[]).expect("valid").includes("many", "d", []));
    }

    #[test]
    fn a_claim_needs_its_two_subjects_and_a_table_needs_all() {
        let subjects = |names: &[&str], table, columns: [&'static str; 2]| {
            let selection = select(names).expect("valid");
            ["a", "b", "c", "d"].map(|subject| selection.includes(table, subject, columns))
        };
        let few = ["few", "script-few"];
        assert_eq!(subjects(&["few"], "few", few), [true, true, false, false]);
        assert_eq!(subjects(&["scripts"], "few", few), [true, false, true, false]);
        assert_eq!(subjects(&["scripts", "few"], "few", few), [true, true, true, false]);
        assert_eq!(subjects(&["few"], "many", ["many", "script-many"]), [false; 4]);
        assert_eq!(subjects(&["many"], "many", ["many", "script-many"]), [true; 4]);
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let problem = select(&["none"]).expect_err("unknown");
        assert!(problem.contains("none") && problem.contains("few, many, scripts"), "{problem}");
    }
}
