// Package crds validates CustomResourceDefinitions and objects with the API server's libraries: whether a
// definition would be established, and which errors a client that validates strictly would get for an object.
package crds

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Definition is a CustomResourceDefinition that an API server would establish, with one version.
type Definition struct {
	APIVersion, Kind string

	structural *schema.Structural
	openAPI    apiservervalidation.SchemaValidator
	rules      *cel.Validator
}

// NewDefinition decodes a CustomResourceDefinition in YAML. The error is that of an API server.
func NewDefinition(data []byte) (*Definition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
		return nil, err
	}
	internal.Status.StoredVersions = []string{crd.Spec.Versions[0].Name} // as the API server's strategy does
	if problems := validation.ValidateCustomResourceDefinition(context.Background(), &internal); len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	if len(crd.Spec.Versions) != 1 {
		return nil, fmt.Errorf("%d versions, want one", len(crd.Spec.Versions))
	}
	// The conversion moves the schema of a single version to the top.
	return newDefinition(&crd, internal.Spec.Validation.OpenAPIV3Schema)
}

func newDefinition(crd *apiextensionsv1.CustomResourceDefinition, props *apiextensions.JSONSchemaProps) (*Definition, error) {
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	if problems := schema.ValidateStructural(nil, structural); len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	openAPI, _, err := apiservervalidation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &Definition{
		APIVersion: crd.Spec.Group + "/" + crd.Spec.Versions[0].Name,
		Kind:       crd.Spec.Names.Kind,
		structural: structural,
		openAPI:    openAPI,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Validate returns the error of an API server about the creation of an object by a client that validates strictly, as
// kubectl does; nil if it accepts the object. Unknown fields are removed from the object.
func (d *Definition) Validate(object map[string]any) error {
	unknown := pruning.PruneWithOptions(object, d.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		var found []error
		for _, path := range unknown {
			found = append(found, fmt.Errorf("strict decoding error: unknown field %q", path))
		}
		return errors.Join(found...)
	}
	problems := apiservervalidation.ValidateCustomResource(nil, object, d.openAPI)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if len(problems) == 0 && d.rules != nil {
		problems, _ = d.rules.Validate(context.Background(), nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	if len(problems) > 0 {
		return problems.ToAggregate()
	}
	return nil
}
