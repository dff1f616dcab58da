//! Coefficients from the labels of an image.

use std::collections::BTreeMap;

use super::Phases;
use crate::execute::{PIECE, find_wrong, for_each_piece, rows};
use crate::stencil::check_length;
use crate::{Error, Host, Result, Shape};

/// Returns the label that was read as a floating-point number; nothing for one that is not whole.
#[inline(always)]
fn whole(value: f64) -> Option<i64> {
    /// The limit up to which f64 holds every whole number.
    const LIMIT: f64 = (1u64 << 53) as f64;
    (value.abs() <= LIMIT && value.fract() == 0.0).then_some(value as i64)
}

/// A table of coefficients by label; a coefficient of 0 makes cells inactive.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelTable {
    entries: BTreeMap<i64, f64>,
    /// The coefficient of labels that have no entry.
    others: Option<f64>,
    /// The first label and the coefficients from there on, where labels are not too far apart; NaN marks a missing one.
    dense: (i64, Vec<f64>),
}

impl LabelTable {
    /// Makes a table from labels and their coefficients; labels without an entry are errors unless `others` is their coefficient.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no entries, and for coefficients that are negative or not finite, naming the label.
    pub fn new(entries: BTreeMap<i64, f64>, others: Option<f64>) -> Result<Self> {
        /// Labels of 16 bits fit.
        const MOST: u64 = 1 << 17;
        let named = entries.iter().map(|(label, value)| (format!("label {label}"), value));
        let all = named.chain(others.iter().map(|value| ("all other labels".to_owned(), value)));
        for (which, &value) in all {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::invalid(
                    "diffusion.coefficient",
                    format!("{value} for {which}; it must be finite and not negative (0 makes cells inactive)"),
                ));
            }
        }
        let (Some((&first, _)), Some((&last, _))) = (entries.first_key_value(), entries.last_key_value()) else {
            let message = "a table without labels; give each label of the image its coefficient";
            return Err(Error::invalid("diffusion.coefficient", message));
        };
        let mut dense = Vec::new();
        if last.abs_diff(first) < MOST {
            dense = vec![f64::NAN; last.abs_diff(first) as usize + 1];
            entries.iter().for_each(|(label, &value)| dense[label.abs_diff(first) as usize] = value);
        }
        Ok(Self { entries, others, dense: (first, dense) })
    }

    /// Returns the coefficient of every cell of an image in C order, of whole numbers of any type.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells; [`Error::Invalid`] for a label without an entry, with the label, its first cell
    /// and the number of its cells.
    pub fn coefficients<L: Copy + Sync + TryInto<i64>>(&self, shape: Shape, image: &[L]) -> Result<Vec<f64>> {
        let number = |label: L| label.try_into().ok();
        self.check(shape, image, number)?;
        Ok(rows(&Host, image.len(), PIECE, |piece, values| {
            let labels = &image[piece * PIECE..];
            values.iter_mut().zip(labels).for_each(|(value, &label)| *value = self.of(number(label)));
        }))
    }

    /// Returns the phases of an image in C order, labels with equal coefficients being one phase; nothing for more than
    /// [`Phases::MOST`] coefficients.
    ///
    /// # Errors
    /// See [`LabelTable::coefficients`].
    pub fn phases<L: Copy + Sync + TryInto<i64>>(&self, shape: Shape, image: &[L]) -> Result<Option<Phases>> {
        self.phases_by(shape, image, |label| label.try_into().ok())
    }

    /// Returns the phases of an image whose labels were read as floating-point numbers, see [`LabelTable::phases`].
    ///
    /// # Errors
    /// See [`LabelTable::coefficients`].
    pub fn phases_of_numbers(&self, shape: Shape, image: &[f64]) -> Result<Option<Phases>> {
        self.phases_by(shape, image, whole)
    }

    fn phases_by<L: Copy + Sync>(
        &self,
        shape: Shape,
        image: &[L],
        label: impl Fn(L) -> Option<i64> + Sync,
    ) -> Result<Option<Phases>> {
        self.check(shape, image, &label)?;
        let mut kappa: Vec<f64> = self.entries.values().chain(&self.others).copied().collect();
        kappa.sort_by(f64::total_cmp);
        kappa.dedup();
        if kappa.len() > Phases::MOST {
            return Ok(None);
        }
        let number = |value: f64| kappa.iter().position(|kappa| *kappa == value).unwrap_or(0) as u8;
        let others = self.others.map_or(0, number);
        let (first, dense) = &self.dense;
        let dense: Vec<u8> = dense.iter().map(|&value| if value.is_nan() { others } else { number(value) }).collect();
        let of = |value: L| match label(value) {
            Some(label) => match dense.get(label.wrapping_sub(*first).cast_unsigned() as usize) {
                Some(&number) => number,
                None => self.entries.get(&label).map_or(others, |&value| number(value)),
            },
            None => others,
        };
        let numbers = rows(&Host, image.len(), PIECE, |piece, numbers| {
            numbers.iter_mut().zip(&image[piece * PIECE..]).for_each(|(number, &label)| *number = of(label));
        });
        Phases::new(shape, numbers, kappa).map(Some)
    }

    /// Replaces labels, which were read as floating-point numbers, by coefficients.
    ///
    /// # Errors
    /// See [`LabelTable::coefficients`].
    pub fn replace(&self, shape: Shape, image: &mut [f64]) -> Result<()> {
        self.check(shape, image, whole)?;
        for_each_piece(&Host, image, |_, piece| piece.iter_mut().for_each(|value| *value = self.of(whole(*value))));
        Ok(())
    }

    /// Returns the coefficient of a label, NaN without an entry.
    #[inline(always)]
    fn of(&self, label: Option<i64>) -> f64 {
        let Some(label) = label else { return f64::NAN };
        let (first, dense) = &self.dense;
        let found = match dense.get(label.wrapping_sub(*first).cast_unsigned() as usize) {
            Some(&value) if !value.is_nan() => Some(value),
            Some(_) => None,
            None => self.entries.get(&label).copied(),
        };
        found.or(self.others).unwrap_or(f64::NAN)
    }

    fn check<L: Copy + Sync>(&self, shape: Shape, image: &[L], number: impl Fn(L) -> Option<i64> + Sync) -> Result<()> {
        check_length("the image", shape, image.len())?;
        let Some(n) = find_wrong(&Host, image, |label| !self.of(number(label)).is_nan()) else { return Ok(()) };
        let [i, j, k] = shape.place(n);
        let place = format!("(i, j, k) = ({i}, {j}, {k})");
        let Some(label) = number(image[n]) else {
            let message = format!("the value of the image in cell {place} is no label; use an image of whole numbers");
            return Err(Error::invalid("diffusion.coefficient", message));
        };
        let count = image.iter().filter(|&&other| number(other) == Some(label)).count();
        let cells = if count == 1 { "1 cell has".to_owned() } else { format!("{count} cells have") };
        Err(Error::invalid(
            "diffusion.coefficient",
            format!(
                "no entry for label {label}, which {cells}, the first at {place}; add one (0 makes cells inactive)"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { nx: 3, ny: 2, nz: 1 };

    fn table(entries: &[(i64, f64)]) -> Result<LabelTable> {
        LabelTable::new(entries.iter().copied().collect(), None)
    }

    #[test]
    fn labels_of_all_types_are_looked_up() {
        let near = table(&[(0, 0.0), (1, 1.5), (200, 30.0)]).unwrap();
        let expected = [0.0, 1.5, 30.0, 30.0, 1.5, 0.0];
        assert_eq!(near.coefficients(SHAPE, &[0u8, 1, 200, 200, 1, 0]).unwrap(), expected);
        assert_eq!(near.coefficients(SHAPE, &[0i64, 1, 200, 200, 1, 0]).unwrap(), expected);
        let mut image = [0.0, 1.0, 200.0, 200.0, 1.0, 0.0];
        near.replace(SHAPE, &mut image).unwrap();
        assert_eq!(image, expected);
        let far = table(&[(i64::MIN, 1.0), (0, 2.0), (i64::MAX, 3.0)]).unwrap();
        assert_eq!(far.coefficients(SHAPE, &[0, i64::MAX, 0, i64::MIN, 0, 0]).unwrap(), [2.0, 3.0, 2.0, 1.0, 2.0, 2.0]);
        let mask = table(&[(0, 0.0), (1, 4.0)]).unwrap();
        assert_eq!(mask.coefficients(SHAPE, &[true, false, true, true, true, false]).unwrap()[..3], [4.0, 0.0, 4.0]);
        let open = LabelTable::new(BTreeMap::from([(-3, 1.0), (7, 2.0)]), Some(0.0)).unwrap();
        let expected = [1.0, 0.0, 2.0, 0.0, 0.0, 0.0];
        assert_eq!(open.coefficients(SHAPE, &[-3i16, -4, 7, 8, 0, 100]).unwrap(), expected);
    }

    #[test]
    fn gaps_are_named_with_their_first_cell_and_count() {
        let table = table(&[(0, 0.0), (2, 1.0)]).unwrap();
        let message = table.coefficients(SHAPE, &[0u8, 2, 2, 0, 1, 1]).unwrap_err().to_string();
        let expected = "no entry for label 1, which 2 cells have, the first at (i, j, k) = (1, 1, 0); add one";
        assert!(message.contains(expected), "{message}");
        let message = table.coefficients(SHAPE, &[0, 2, -9, 0, 0, 0]).unwrap_err().to_string();
        assert!(message.contains("label -9, which 1 cell has, the first at (i, j, k) = (2, 0, 0)"), "{message}");
        for odd in [0.5, f64::NAN, f64::INFINITY, 1e300] {
            let message = table.replace(SHAPE, &mut [0.0, odd, 2.0, 0.0, 0.0, 0.0]).unwrap_err().to_string();
            assert!(message.contains("in cell (i, j, k) = (1, 0, 0) is no label"), "{message}");
        }
        assert!(table.coefficients(SHAPE, &[0u8; 5]).unwrap_err().to_string().contains("5 cells, but 6 = 3×2×1"));
        assert!(table.coefficients(SHAPE, &[u64::MAX; 6]).is_err());
    }

    #[test]
    fn wrong_tables_are_refused() {
        for wrong in [f64::NAN, -1.0, f64::INFINITY] {
            let message = table(&[(0, 1.0), (9, wrong)]).unwrap_err().to_string();
            assert!(message.contains(&format!("{wrong} for label 9")), "{message}");
            assert!(LabelTable::new(BTreeMap::from([(0, 1.0)]), Some(wrong)).is_err());
        }
        assert!(table(&[]).unwrap_err().to_string().contains("without labels"));
    }
}
