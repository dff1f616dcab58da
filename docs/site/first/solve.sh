isobar solve poisson.toml --output u.npy --plot u.png --report u.json
