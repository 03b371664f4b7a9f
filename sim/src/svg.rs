//! Line charts as SVG: panels below each other that share an x-axis.
//!
//! On white, so that they are readable on any background; without blank lines, so that they can be embedded in
//! Markdown.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
/// Above the first panel: the title, and the legend if there is one.
const TOP: f64 = 34.0;
const LEGEND: f64 = 24.0;
/// Above each panel: its title.
const HEAD: f64 = 30.0;
/// Below the last panel: ticks and the label of the axis.
const BOTTOM: f64 = 46.0;

/// Colours that are distinguishable with colour blindness.
pub(crate) const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// An axis: its range and its ticks.
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) ticks: Vec<(f64, String)>,
}

pub(crate) struct Line {
    /// The name in the legend. Empty: not in the legend.
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    /// Marks each point: for lines with few points.
    pub(crate) dots: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// A dashed line across, with its name.
    pub(crate) level: Option<(f64, String)>,
}

pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
    /// The height of each panel.
    pub(crate) height: f64,
    /// A shaded part of the x-axis, with its name.
    pub(crate) band: Option<(f64, f64, String)>,
}

impl Chart {
    pub(crate) fn draw(&self) -> String {
        let below = self.top() + (self.height + HEAD) * number(self.panels.len());
        let height = below + BOTTOM;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" \
             fill=\"#333\" role=\"img\">\n\
             <title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#fff\"/>\n",
            title = escaped(&self.title),
        );
        text(&mut svg, (LEFT, 24.0), "font-size=\"15\" font-weight=\"bold\"", &self.title);
        self.legend(&mut svg);
        for (index, panel) in self.panels.iter().enumerate() {
            let top = self.top() + HEAD + (self.height + HEAD) * number(index);
            self.panel(&mut svg, panel, top);
        }
        for (at, label) in &self.x.ticks {
            text(&mut svg, (self.x_of(*at), below + 18.0), "text-anchor=\"middle\"", label);
        }
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        text(&mut svg, (middle, below + 38.0), "text-anchor=\"middle\"", &self.x.label);
        svg.push_str("</svg>\n");
        svg
    }

    /// Returns the y-coordinate of the first panel.
    fn top(&self) -> f64 {
        let named = self.panels.iter().flat_map(|panel| &panel.lines).any(|line| !line.name.is_empty());
        if named { TOP + LEGEND } else { TOP }
    }

    fn legend(&self, svg: &mut String) {
        let mut seen: Vec<&str> = Vec::new();
        let mut x = LEFT;
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if line.name.is_empty() || seen.contains(&line.name.as_str()) {
                continue;
            }
            seen.push(&line.name);
            let _ =
                writeln!(svg, "<path d=\"M{x:.0} 44h22\" stroke=\"{}\" stroke-width=\"3\"/>", line.colour);
            text(svg, (x + 28.0, 48.0), "", &line.name);
            // The approximate width of a letter.
            x += 52.0 + 6.5 * number(line.name.chars().count());
        }
    }

    fn panel(&self, svg: &mut String, panel: &Panel, top: f64) {
        let bottom = top + self.height;
        let y_of = |y: f64| {
            let part = (y - panel.y.from) / (panel.y.to - panel.y.from);
            bottom - part.clamp(0.0, 1.0) * self.height
        };
        if let Some((from, to, name)) = &self.band {
            let (x, width) = (self.x_of(*from), self.x_of(*to) - self.x_of(*from));
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"#f3ead0\"/>",
                self.height
            );
            text(svg, (x + 6.0, top + 14.0), "font-size=\"11\" fill=\"#8a6d1a\"", name);
        }
        text(svg, (LEFT, top - 7.0), "font-weight=\"bold\"", &panel.title);
        // One path for all ticks of both axes.
        let mut grid = String::new();
        for (at, label) in &panel.y.ticks {
            let y = y_of(*at);
            let _ = write!(grid, "M{LEFT:.0} {y:.1}H{:.0}", WIDTH - RIGHT);
            text(svg, (LEFT - 7.0, y + 4.0), "text-anchor=\"end\"", label);
        }
        for (at, _) in &self.x.ticks {
            let _ = write!(grid, "M{:.1} {bottom:.1}v5", self.x_of(*at));
        }
        let _ = writeln!(svg, "<path d=\"{grid}\" fill=\"none\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT:.0} {top:.1}V{bottom:.1}H{:.0}\" fill=\"none\" stroke=\"#777\"/>",
            WIDTH - RIGHT
        );
        let middle = f64::midpoint(top, bottom);
        let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 16 {middle:.1})\"");
        text(svg, (16.0, middle), &turned, &panel.y.label);
        if let Some((level, _)) = &panel.level {
            let y = y_of(*level);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT:.0} {y:.1}H{:.0}\" stroke=\"#333\" stroke-dasharray=\"6 4\"/>",
                WIDTH - RIGHT
            );
        }
        for line in &panel.lines {
            self.line(svg, line, &y_of);
        }
        if let Some((level, name)) = &panel.level {
            // With a white outline, as a line may pass behind it.
            let attributes = "text-anchor=\"end\" font-size=\"11\" stroke=\"#fff\" stroke-width=\"3\" \
                              paint-order=\"stroke\"";
            text(svg, (WIDTH - RIGHT - 4.0, y_of(*level) - 14.0), attributes, name);
        }
    }

    fn line(&self, svg: &mut String, line: &Line, y_of: &impl Fn(f64) -> f64) {
        let mut path = String::new();
        for (index, (x, y)) in line.points.iter().enumerate() {
            let step = if index == 0 { "M" } else { "L" };
            let _ = write!(path, "{step}{:.1} {:.1}", self.x_of(*x), y_of(*y));
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"/>",
            line.colour,
            if line.dots { 2.0 } else { 1.5 },
        );
        if line.dots {
            for (x, y) in &line.points {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{}\"/>",
                    self.x_of(*x),
                    y_of(*y),
                    line.colour
                );
            }
        }
    }

    fn x_of(&self, x: f64) -> f64 {
        LEFT + (x - self.x.from) / (self.x.to - self.x.from) * (WIDTH - LEFT - RIGHT)
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), attributes: &str, content: &str) {
    let space = if attributes.is_empty() { "" } else { " " };
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{space}{attributes}>{}</text>", escaped(content));
}

/// Escapes text for XML.
fn escaped(content: &str) -> String {
    content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[expect(clippy::cast_precision_loss, reason = "a few panels, a few letters")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a < b && c > d"), "a &lt; b &amp;&amp; c &gt; d");
    }

    #[test]
    fn a_chart_is_one_element_without_blank_lines() {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            from: 0.0,
            to: 2.0,
            ticks: vec![(0.0, "0".to_owned()), (2.0, "2".to_owned())],
        };
        let line = Line {
            name: "a & b".to_owned(),
            colour: COLOURS[0],
            dots: true,
            points: vec![(0.0, 1.0), (1.0, 3.0)],
        };
        let panel = Panel { title: String::new(), y: axis("y"), lines: vec![line], level: None };
        let chart = Chart {
            title: "t".to_owned(),
            x: axis("x"),
            panels: vec![panel],
            height: 100.0,
            band: Some((0.5, 1.0, "partition".to_owned())),
        };
        let svg = chart.draw();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.lines().all(|line| !line.trim().is_empty()));
        assert!(svg.contains("a &amp; b"));
        // A value above the axis is clamped to it.
        assert!(svg.contains(&format!(
            "L{:.1} {:.1}",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            chart.top() + HEAD
        )));
    }
}
