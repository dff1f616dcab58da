from petsc4py import PETSc

n = 100
da = PETSc.DMDA().create([n, n], stencil_width=1)
A = da.createMatrix()
row, col = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
(i0, i1), (j0, j1) = da.getRanges()
for j in range(j0, j1):
    for i in range(i0, i1):
        row.index = (i, j)
        diagonal = 0.0
        for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            if 0 <= i + di < n and 0 <= j + dj < n:
                col.index = (i + di, j + dj)
                A.setValueStencil(row, col, -1.0)
                diagonal += 1.0
            else:
                diagonal += 2.0
        A.setValueStencil(row, row, diagonal)
A.assemble()
b, x = da.createGlobalVec(), da.createGlobalVec()
b.set(1 / n**2)

ksp = PETSc.KSP().create()
ksp.setOperators(A)
ksp.setType("cg")
ksp.getPC().setType("gamg")
ksp.setTolerances(rtol=1e-8)
ksp.solve(b, x)
print("largest u: %.6f" % x.max()[1])
