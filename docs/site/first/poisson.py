import isobar
import numpy as np

problem = isobar.Diffusion(np.ones((100, 100)), boundary=0.0)  # κ = 1 in 100 × 100 cells, u = 0 on all sides
solver = isobar.Solver(problem, tolerance=1e-8)
result = solver.solve(problem.rhs(1.0))  # f = 1

print(solver)
print(result)
print(f"largest u: {result.x.max():.6f}")
