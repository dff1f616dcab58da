//! Values of cells: a number, a file, or a recipe.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use isobar::Shape;
use isobar::internals::execute::{Host, find_wrong};
use isobar::internals::forms::Forms;
use isobar::problem::LabelTable;
use isobar::problem::materials::{self, Bubbles};
use isobar_io::image::{self, Pixels};
use isobar_io::npy;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::{Error, Number, Result, memory};

/// Values of all cells: a coefficient, a reaction, or a mask.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// One number for all cells.
    Number(f64),
    /// `{ file = "perm.npy" }`: shape (nz, ny, nx).
    File(PathBuf),
    /// `{ image = "rock.tif", values = { 0 = 0.0, 255 = 1.0 } }`: an image of labels, and the value of each label.
    Image(Image),
    /// `{ layers = { contrast, seed } }`
    Layers(Layers),
    /// `{ two_phase = { contrast } }`
    TwoPhase(TwoPhase),
    /// `{ bubbles = { count, radius, contrast, seed } }`
    Bubbles(Bubbles),
    /// `{ noise = { sigma, seed } }`
    Noise(Noise),
    /// `{ ratio = 0.1 }`: this number times the horizontal coefficient.
    Ratio(f64),
    /// `{ ratio_file = "kv_over_kh.npy" }`: a ratio per layer, shape (nz,).
    RatioFile(PathBuf),
}

impl Default for Values {
    /// Returns the coefficient of a case without one.
    fn default() -> Self {
        Self::Number(1.0)
    }
}

/// An image of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    path: PathBuf,
    values: BTreeMap<i64, f64>,
}

/// A label, as the key of a table.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LabelKey(i64);

impl<'de> Deserialize<'de> for LabelKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        let label = key.parse().map(Self);
        label.map_err(|_| {
            D::Error::custom(format!(
                "\"{key}\" is not a label of an image; use whole numbers, as in {{ 0 = 0.0, 255 = 1.0 }}"
            ))
        })
    }
}

/// Layers with coefficients between 1/contrast and 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    /// Largest over smallest coefficient.
    contrast: f64,
    /// Seed of the coefficients.
    #[serde(default)]
    seed: u64,
}

/// Two fluids, one above the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoPhase {
    /// Lower over upper coefficient.
    contrast: f64,
}

/// exp(σξ), with ξ independent in each cell.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// σ, 0 to 100.
    sigma: f64,
    /// Seed of the random numbers ξ.
    #[serde(default)]
    seed: u64,
}

/// The keys of a table of values, exactly one of which is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: Option<PathBuf>,
    layers: Option<Layers>,
    two_phase: Option<TwoPhase>,
    bubbles: Option<Bubbles>,
    noise: Option<Noise>,
    ratio: Option<f64>,
    ratio_file: Option<PathBuf>,
    image: Option<PathBuf>,
    values: Option<BTreeMap<LabelKey, f64>>,
}

impl Table {
    fn into_values(self) -> Result<Values, String> {
        let image = match (self.image, self.values) {
            (Some(path), Some(values)) => {
                let values = values.into_iter().map(|(LabelKey(label), value)| (label, value)).collect();
                Some(Values::Image(Image { path, values }))
            }
            (None, None) => None,
            _ => {
                return Err(
                    "image and values must be given together, as in { image = \"rock.tif\", values = { 0 = 0.0, \
                            255 = 1.0 } }"
                        .to_owned(),
                );
            }
        };
        let given: Vec<Values> = [
            self.file.map(Values::File),
            self.layers.map(Values::Layers),
            self.two_phase.map(Values::TwoPhase),
            self.bubbles.map(Values::Bubbles),
            self.noise.map(Values::Noise),
            self.ratio.map(Values::Ratio),
            self.ratio_file.map(Values::RatioFile),
            image,
        ]
        .into_iter()
        .flatten()
        .collect();
        let count = given.len();
        match <[Values; 1]>::try_from(given) {
            Ok([values]) => Ok(values),
            Err(_) => Err(format!("{count} keys, but exactly one is needed, as in {{ file = \"values.npy\" }}")),
        }
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = Forms::<Self, (), Table> {
            number: |value| Some(Self::Number(value)),
            table: Some(Table::into_values),
            ..Forms::new("a number, or a table such as { file = \"values.npy\" }")
        };
        forms.read(deserializer)
    }
}

impl Image {
    /// Returns the table of its labels, or the problem with it.
    fn table(&self) -> Result<LabelTable, String> {
        LabelTable::new(self.values.clone(), None).map_err(message_of)
    }

    /// Returns the coefficient of every cell.
    fn read(&self, key: &str, shape: Shape) -> Result<Vec<f64>> {
        let table = self.table().map_err(|message| Error::new(format!("{key}: {message}")))?;
        let image = image::read_shaped(&self.path, [shape.nz, shape.ny, shape.nx]);
        let fail = |error| Error::new(format!("{key}: {}: {}", self.path.display(), message_of(error)));
        match image.map_err(|error| Error::new(format!("{key}: {error}")))?.values {
            Pixels::Bytes(labels) => table.coefficients(shape, &labels).map_err(fail),
            Pixels::Numbers(mut values) => table.replace(shape, &mut values).map(|()| values).map_err(fail),
        }
    }
}

/// Returns the message of an error without its key, which is shown separately.
fn message_of(error: isobar::Error) -> String {
    match error {
        isobar::Error::Invalid { message, .. } => message,
        other => other.to_string(),
    }
}

impl Values {
    /// Makes paths relative to a folder.
    pub(crate) fn rebase(&mut self, folder: &Path) {
        if let Self::File(path) | Self::RatioFile(path) | Self::Image(Image { path, .. }) = self {
            *path = folder.join(&*path);
        }
    }

    /// Returns the file that the values come from.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::RatioFile(path) | Self::Image(Image { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Returns why these values do not suit a key that takes numbers and files, and, if allowed, recipes, ratios and negative numbers.
    pub(crate) fn misfit(&self, recipes: bool, ratios: bool, negative: bool) -> Option<String> {
        match self {
            Self::Number(value) if *value < 0.0 && !negative => {
                Some(format!("{} is negative; use 0 or more", Number(*value)))
            }
            Self::Number(value) if !fits(value.abs()) => {
                Some(format!("{} is out of range; {}", Number(*value), use_a_size()))
            }
            Self::Ratio(value) if ratios && *value < 0.0 => {
                Some(format!("the ratio {} is negative; use 0 or more", Number(*value)))
            }
            Self::Ratio(_) | Self::RatioFile(_) if !ratios => {
                Some("a ratio to the horizontal coefficient is supported for diffusion.coefficient_z only".into())
            }
            Self::File(path) | Self::RatioFile(path) if path.as_os_str().is_empty() => {
                Some("an empty path; name an .npy file".into())
            }
            Self::Image(Image { path, .. }) if path.as_os_str().is_empty() => {
                Some("an empty path; name an image, .npy or .tif".into())
            }
            Self::Image(image) if recipes => image.table().err(),
            Self::Layers(_) | Self::TwoPhase(_) | Self::Bubbles(_) | Self::Noise(_) | Self::Image(_) if !recipes => {
                Some("give a number or { file = \"values.npy\" }".into())
            }
            _ => None,
        }
    }

    /// Returns the value of every cell, shape (nz, ny, nx) in C order. Ratios refer to `horizontal`.
    ///
    /// # Errors
    /// A file that cannot be read or has another shape; negative values, naming the cell; an invalid recipe.
    pub(crate) fn fill(&self, key: &str, shape: Shape, extent: [f64; 3], horizontal: &[f64]) -> Result<Vec<f64>> {
        Ok(match self {
            Self::Number(value) => memory::fill(key, shape.cells(), |_, piece| piece.fill(*value))?,
            Self::File(path) => read_cells(key, path, shape)?,
            Self::Image(image) => image.read(key, shape)?,
            Self::Layers(layers) => materials::layers(shape, layers.contrast, layers.seed)?,
            Self::TwoPhase(phases) => materials::two_phase(shape, phases.contrast)?,
            Self::Bubbles(bubbles) => materials::bubbles(shape, extent, bubbles)?,
            Self::Noise(noise) => materials::noise(shape, noise.sigma, noise.seed)?,
            Self::Ratio(ratio) => memory::fill(key, horizontal.len(), |first, piece: &mut [f64]| {
                piece.iter_mut().zip(&horizontal[first..]).for_each(|(of_cell, value)| *of_cell = ratio * value);
            })?,
            Self::RatioFile(path) => {
                let ratios = npy::read_layers(path, shape.nz).map_err(|error| Error::new(format!("{key}: {error}")))?;
                if let Some(layer) = ratios.iter().position(|ratio| *ratio < 0.0) {
                    return Err(Error::new(format!(
                        "{key}: {}: {} at layer {layer}, counted from 0; ratios must not be negative",
                        path.display(),
                        Number(ratios[layer])
                    )));
                }
                let layers = horizontal.chunks(shape.nx * shape.ny);
                let values =
                    layers.zip(&ratios).flat_map(|(layer, ratio)| layer.iter().map(move |value| ratio * value));
                memory::collect(key, horizontal.len(), values)?
            }
        })
    }

    /// Describes them for the summary.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Number(value) => Number(*value).to_string(),
            Self::File(path) => path.display().to_string(),
            Self::Image(image) => format!("{} values of the image {}", image.values.len(), image.path.display()),
            Self::Layers(layers) => format!("layers of contrast {:e}", layers.contrast),
            Self::TwoPhase(phases) => format!("two phases of contrast {:e}", phases.contrast),
            Self::Bubbles(bubbles) => format!("{} bubbles of contrast {:e}", bubbles.count, bubbles.contrast),
            Self::Noise(noise) => format!("noise of sigma {}", Number(noise.sigma)),
            Self::Ratio(ratio) => format!("{} times the horizontal one", Number(*ratio)),
            Self::RatioFile(path) => format!("the horizontal one times {}", path.display()),
        }
    }
}

/// Range of coefficients other than 0: products of two transmissibilities neither overflow nor underflow.
pub(crate) const SIZES: RangeInclusive<f64> = 1e-60..=1e60;

/// Returns whether a coefficient is 0 or within [`SIZES`].
pub(crate) fn fits(value: f64) -> bool {
    value == 0.0 || SIZES.contains(&value)
}

pub(crate) fn use_a_size() -> String {
    format!("use 0 or {} to {}, in other units if necessary", Number(*SIZES.start()), Number(*SIZES.end()))
}

/// Fails if values, after files, recipes and factors, are out of range, whatever their signs; the message names the cell.
pub(crate) fn check_sizes(key: &str, values: &[f64], shape: Shape) -> Result<()> {
    match find_out_of_range(values) {
        None => Ok(()),
        Some((value, n)) => {
            let [i, j, k] = shape.place(n);
            Err(Error::new(format!(
                "{key}: {} in cell (i, j, k) = ({i}, {j}, {k}) is out of range; {}",
                Number(value),
                use_a_size()
            )))
        }
    }
}

/// Returns the first value that is out of range, whatever its sign, and its index.
pub(crate) fn find_out_of_range(values: &[f64]) -> Option<(f64, usize)> {
    let n = find_wrong(&Host, values, |value: f64| fits(value.abs()))?;
    Some((values[n], n))
}

/// Returns which values are not 0.
pub(crate) fn mask(values: Vec<f64>) -> Result<Vec<bool>> {
    memory::collect("the mask", values.len(), values.into_iter().map(|value| value != 0.0))
}

/// Reads one number per cell from a file.
pub(crate) fn read_numbers(key: &str, path: &Path, shape: Shape) -> Result<Vec<f64>> {
    npy::read(path, [shape.nz, shape.ny, shape.nx]).map_err(|error| Error::new(format!("{key}: {error}")))
}

/// Reads one number per cell from a file; none may be negative.
pub(crate) fn read_cells(key: &str, path: &Path, shape: Shape) -> Result<Vec<f64>> {
    let values = read_numbers(key, path, shape)?;
    if let Some(n) = find_wrong(&Host, &values, |value: f64| value >= 0.0 || value.is_nan()) {
        let [i, j, k] = shape.place(n);
        return Err(Error::new(format!(
            "{key}: {}: {} in cell (i, j, k) = ({i}, {j}, {k}), a[{k}, {j}, {i}]; it must not be negative (0 makes a \
             cell of a coefficient inactive)",
            path.display(),
            Number(values[n])
        )));
    }
    Ok(values)
}
