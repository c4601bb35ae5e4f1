package meter

// The tables that tests hold against the interpreter.
var (
	OperatorKinds    = operatorKinds
	OperatorNames    = operatorNames
	MeteredFunctions = meteredFunctions
	NativeUniverse   = nativeUniverse
	MethodsOf        = methodsOf
)
