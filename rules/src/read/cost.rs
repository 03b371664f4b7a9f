//! `cost`: what a request costs.

use super::fields::COST;
use super::reader::{Reader, kind_of};
use super::section::Setting;
use crate::diagnostic::quoted;
use crate::model::Cost;
use crate::syntax::tree::{ScalarKind, Value};
use crate::units;

impl Reader<'_> {
    pub(super) fn cost(&mut self, setting: &Setting<'_>) -> Option<Cost> {
        match &setting.node.value {
            Value::Scalar(scalar) => match scalar.kind {
                ScalarKind::Integer | ScalarKind::Float => self.count(setting).map(Cost::Fixed),
                ScalarKind::Text if scalar.text.starts_with(|first: char| first.is_ascii_digit()) => {
                    let message = format!("`cost` is {}", quoted(&scalar.text));
                    let number = units::count(&scalar.text).or_else(|problem| {
                        units::size(&scalar.text)
                            .ok()
                            .and_then(|size| u32::try_from(size).ok())
                            .ok_or(problem)
                    });
                    let right = number.map_or_else(|_| "3".to_owned(), |number| number.to_string());
                    let advice =
                        format!("write a whole number, such as `cost: {right}`, or the name of an attribute");
                    self.error(setting.node.span, message, advice);
                    None
                }
                ScalarKind::Text => {
                    let name = self.attribute(&scalar.text, setting.node.span)?.value;
                    Some(Cost::Attribute { name, default: 1 })
                }
                ScalarKind::Bool | ScalarKind::Null => {
                    self.wrong_type(setting);
                    None
                }
            },
            Value::Map(_) => {
                let section = self.section(&COST, "`cost`", setting.node)?;
                let name = self.required(&section, "attribute").map(|name| self.attribute_of(&name));
                let default = section.get("default").map(|default| self.count(&default));
                Some(Cost::Attribute { name: name??.value, default: default.unwrap_or(Some(1))? })
            }
            Value::List(_) => {
                let message = format!("`cost` is {} here", kind_of(setting.node));
                let advice =
                    "a request has one cost per limit; write several limits, each with a `cost` of its own";
                self.error(setting.node.span, message, advice);
                None
            }
        }
    }
}
